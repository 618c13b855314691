// main.cpp - Boost.Context's side of weft-bench: the raw switch, by the protocol described in
// bench/contender.h. `fcontext` is the assembly routine alone, `fiber` the documented class on it.
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "../../contender.h"

namespace ctx = boost::context;

static const std::size_t stack_size = 64 * 1024;

static void bounce(ctx::detail::transfer_t back)
{
    for (;;) {
        back = ctx::detail::jump_fcontext(back.fctx, nullptr);
    }
}

static int fcontext(contender_result *out, uint64_t count)
{
    char *stack = static_cast<char *>(std::aligned_alloc(64, stack_size));
    ctx::detail::transfer_t there = {
        ctx::detail::make_fcontext(stack + stack_size, stack_size, bounce), nullptr
    };
    for (int i = 0; i < 1000; i++) {
        there = ctx::detail::jump_fcontext(there.fctx, nullptr);
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < count; i += 2) {
        there = ctx::detail::jump_fcontext(there.fctx, nullptr);
    }
    contender_add(out, "ns_per_switch", (contender_cpu_ns() - t0) / (double)count);
    std::free(stack);
    return 0;
}

static int fiber(contender_result *out, uint64_t count)
{
    ctx::fiber there([](ctx::fiber &&back) {
        for (;;) {
            back = std::move(back).resume();
        }
        return std::move(back);
    });
    for (int i = 0; i < 1000; i++) {
        there = std::move(there).resume();
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < count; i += 2) {
        there = std::move(there).resume();
    }
    contender_add(out, "ns_per_switch", (contender_cpu_ns() - t0) / (double)count);
    return 0;
}

static const contender_bench benches[] = {
    { "fcontext", fcontext },
    { "fiber", fiber },
    { nullptr, nullptr },
};

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: boost BENCH COUNT\n");
        return 2;
    }
    return contender_main(argv[1], argv[2], benches);
}
