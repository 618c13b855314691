// relax.h - the pause inside a spin loop.
#ifndef WEFT_BASE_RELAX_H
#define WEFT_BASE_RELAX_H

#ifdef WEFT_MODEL
void mc_relax(void);
#define weft__cpu_relax() mc_relax()
#elif defined(__x86_64__)
#define weft__cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define weft__cpu_relax() __asm__ volatile("isb" ::: "memory")
#else
#define weft__cpu_relax() ((void)0)
#endif

#endif
