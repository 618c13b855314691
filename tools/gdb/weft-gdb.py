"""weft-gdb.py - gdb commands for programs that use weft, running or dumped to a core file.

    (gdb) source weft-gdb.py        not needed where gdb auto-loads it with libweft.so
    (gdb) weft tasks [TEXT]         every task of every runtime (whose line contains TEXT)
    (gdb) weft bt ID                backtrace of task ID; `weft bt all` of every virtual thread
    (gdb) weft use ID               bt, up, down, info locals, ... see task ID above frame 0
    (gdb) weft use                  back to the OS thread as it is

A virtual thread that does not run has left its registers in a frame on its own stack (drawn in
src/task/switch_*.S). Nothing is written to get at it: an unwinder claims that the innermost frame
of the selected OS thread was called from there. So it works on core files as well (the kernel's;
gdb's own gcore stumbles over guard pages and leaves the stacks out).

Needs gdb 11 with Python, and libweft's debug information.
"""
import re

import gdb
import gdb.unwinder

# What the sources keep in macros, which debug information does not have.
LIFE, IDLE, ACTIVE, CANCELLED = 0x3, 1, 2, 0x40  # task/task.h: WEFT__WORD_...
REFS = 0xFFFFFF00
LINE_BYTES = 64                                  # base/base.h: WEFT__LINE
LINE_COLOURS = 16                                # task/slab.c

# Where weft__switch() left the registers, by their offset from the saved stack pointer.
FRAMES = {
    "i386:x86-64": {
        "size": 64, "sp": "rsp", "pc": "rip",
        "saved": {"r15": 8, "r14": 16, "r13": 24, "r12": 32, "rbx": 40, "rbp": 48, "rip": 56},
    },
    "aarch64": {
        "size": 176, "sp": "sp", "pc": "pc",
        "saved": dict({"x29": 0, "x30": 8, "pc": 8},
                      **{"x%d" % n: 16 + 8 * (n - 19) for n in range(19, 29)}),
    },
}


def frame_layout():
    name = gdb.selected_inferior().architecture().name()
    if name not in FRAMES:
        raise gdb.GdbError("weft: no frame layout for " + name)
    return FRAMES[name]


def integer(value):
    """The value as a number, whether it is _Atomic or not."""
    return int(value.cast(gdb.lookup_type("unsigned long")))


def u64(address):
    try:
        memory = gdb.selected_inferior().read_memory(address, 8)
    except gdb.MemoryError as error:
        raise gdb.GdbError("weft: memory at %#x cannot be read" % address) from error
    return int.from_bytes(memory.tobytes(), "little")


def text(pointer):
    return pointer.string(errors="replace") if integer(pointer) != 0 else ""


def runtimes():
    """Every runtime of every copy of the library in the process."""
    found = False
    for symbol in gdb.lookup_static_symbols("runtimes"):
        # Not by str(type): gdb leaves "struct" out where the selected frame is C++ or assembler.
        if symbol.type.code != gdb.TYPE_CODE_PTR or symbol.type.target().name != "weft__runtime":
            continue
        runtime = symbol.value()
        if not runtime.is_optimized_out:  # link-time optimisation leaves an entry without a place
            found = True
            while integer(runtime) != 0:
                yield runtime.dereference()
                runtime = runtime["next"]
    if not found:
        raise gdb.GdbError("weft: the program does not use weft, or its debug information is missing")


def block_offset(slab, slot):
    """As in task/slab.c."""
    return (1 << slab["shift"]) - slot % LINE_COLOURS * LINE_BYTES - slab["block_bytes"]


def stack_blocks(pool):
    """The control blocks of all slots that were ever taken and still have their pages."""
    groups = pool["groups"]
    low, high = groups.type.range()
    for number in range(low, high + 1):
        pointer = groups[number]["slabs"]
        while integer(pointer) != 0:
            slab = pointer.cast(gdb.lookup_type("struct weft__slab").pointer()).dereference()
            names = ("shift", "stride", "block_bytes", "base", "used")
            plain = {name: integer(slab[name]) for name in names}
            cold = integer(slab["cold"][0].address)
            for slot in range(plain["used"]):
                if not u64(cold + slot // 64 * 8) >> slot % 64 & 1:
                    yield plain["base"] + slot * plain["stride"] + block_offset(plain, slot)
            pointer = slab["next"]


def future_blocks(blocks):
    chunk = blocks["chunks"]
    while integer(chunk) != 0:
        low, high = chunk["blocks"].type.range()
        for number in range(low, high + 1):
            yield integer(chunk["blocks"][number].address)
        chunk = chunk["next"]


class Task:
    """A picture of one task."""

    def __init__(self, value):
        self.value = value
        self.address = integer(value.address)
        self.word = integer(value["word"])
        self.id = integer(value["id"])
        self.name = text(value["name"])
        self.kind = text(value["kind"]["name"])
        self.home = value["home"].dereference()
        self.carrier = integer(self.home["number"])
        self.stack_low = integer(value["stack_low"])
        self.running = integer(self.home["current"]) == self.address
        self.site = "%s:%d" % (text(value["file"]).rsplit("/", 1)[-1] or "?",
                               integer(value["line"]))
        self.waits_for = text(value["waits_for"].cast(gdb.lookup_type("char").pointer()))

    def state(self):
        life = self.word & LIFE
        if life == ACTIVE:
            state = "running" if self.running else "ready"
        elif life == IDLE:
            state = "waiting" if self.waits_for else "parked"
        else:
            state = "done"
        return state + (", cancelled" if self.word & CANCELLED else "")

    def has_frame(self):
        """Whether its registers are on its own stack."""
        return self.stack_low != 0 and not self.running and self.word & LIFE != 0

    def line(self):
        waits = self.waits_for if self.word & LIFE == IDLE else ""
        return "%6d  %-16s %-7s %-10s %7d  %-12s %s" % (
            self.id, self.name or "-", self.kind, self.state(), self.carrier, waits or "-", self.site)


def tasks(runtime):
    task_type = gdb.lookup_type("struct weft__task")
    word = next(field.bitpos // 8 for field in task_type.fields() if field.name == "word")
    crew = runtime["crew"]
    found = []
    for blocks in (stack_blocks(crew["stacks"].dereference()), future_blocks(crew["blocks"])):
        for address in blocks:
            if u64(address + word) & REFS:
                value = gdb.Value(address).cast(task_type.pointer()).dereference()
                found.append(Task(value))
    return sorted(found, key=lambda task: task.id)


def find_task(argument):
    try:
        wanted = int(argument, 0)
    except ValueError as error:
        raise gdb.GdbError("weft: a task number is needed; `weft tasks` lists them") from error
    found = [task for runtime in runtimes() for task in tasks(runtime) if task.id == wanted]
    if not found:
        raise gdb.GdbError("weft: there is no task %d" % wanted)
    if len(found) > 1:
        print("weft: several runtimes have a task %d, this is the first" % wanted)
    return found[0]


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class TaskUnwinder(gdb.unwinder.Unwinder):
    """While a task is chosen: the innermost frame of the OS thread was called from it."""

    def __init__(self):
        super().__init__("weft task")
        self.context = 0  # the saved stack pointer of the chosen task; 0: none
        self.sp = 0       # of the innermost frame that is to be claimed

    def choose(self, task):
        self.drop()
        layout = frame_layout()
        self.sp = integer(gdb.newest_frame().read_register(layout["sp"]))
        self.context = integer(task.value["context"]["sp"])
        gdb.invalidate_cached_frames()

    def drop(self):
        if self.context != 0:
            self.context = 0
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.context == 0 or pending.level() != 0:
            return None
        layout = frame_layout()
        if integer(pending.read_register(layout["sp"])) != self.sp:
            return None
        # gdb insists that callers stand above their callees, so we say that this frame stands right
        # below the task's.
        word = gdb.lookup_type("unsigned long")
        below = gdb.Value(self.context).cast(word)
        info = pending.create_unwind_info(FrameId(below, pending.read_register(layout["pc"])))
        for register, offset in layout["saved"].items():
            info.add_saved_register(register, gdb.Value(u64(self.context + offset)).cast(word))
        info.add_saved_register(layout["sp"], gdb.Value(self.context + layout["size"]).cast(word))
        return info


UNWINDER = TaskUnwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)
gdb.events.cont.connect(lambda event: UNWINDER.drop())


def running_backtrace(task):
    """The OS thread whose stack pointer is on the task's stack."""
    selected = gdb.selected_thread()
    layout = frame_layout()
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            sp = integer(gdb.newest_frame().read_register(layout["sp"]))
            if task.stack_low <= sp < task.address:
                return gdb.execute("bt", to_string=True)
    finally:
        selected.switch()
    return "its carrier is between two tasks\n"


def saved_backtrace(task):
    UNWINDER.choose(task)
    try:
        lines = gdb.execute("bt", to_string=True).splitlines()
    finally:
        UNWINDER.drop()
    # Frame 0 is the OS thread's, not the task's.
    start = next((at for at, line in enumerate(lines) if line.startswith("#1 ")), len(lines))
    shown = [re.sub(r"^#(\d+)( *)", lambda match: "#%-3d " % (int(match[1]) - 1), line)
             for line in lines[start:]]
    return "\n".join(shown) + "\n"


def backtrace(task):
    if task.stack_low == 0:
        return "a future has no stack; its poll function is %s\n" % (
            task.value["arg"].cast(gdb.lookup_type("struct weft_future").pointer())["poll"])
    if not task.value["started"]:
        return "not started yet; its function is %s\n" % task.value["fn"]
    if task.running:
        return running_backtrace(task)
    return saved_backtrace(task) if task.has_frame() else "it has ended\n"


class WeftCommand(gdb.Command):
    """Commands for programs that use weft: tasks, bt, use."""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_USER, prefix=True)


class TasksCommand(gdb.Command):
    """weft tasks [TEXT] - every task of every runtime (whose line contains TEXT)."""

    def __init__(self):
        super().__init__("weft tasks", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        for runtime in runtimes():
            found = tasks(runtime)
            shown = [task.line() for task in found if argument in task.line()]
            print("runtime %s: %s, %d carriers, %d tasks" % (
                runtime.address, text(runtime["driver"]["name"]),
                integer(runtime["crew"]["active"]), len(found)))
            print("%6s  %-16s %-7s %-10s %7s  %-12s %s" % (
                "id", "name", "kind", "state", "carrier", "waits for", "spawned at"))
            for line in shown:
                print(line)


class BacktraceCommand(gdb.Command):
    """weft bt ID|all - backtrace of a task, or of every virtual thread that has not ended."""

    def __init__(self):
        super().__init__("weft bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if argument.strip() == "all":
            chosen = [task for runtime in runtimes() for task in tasks(runtime)
                      if task.stack_low != 0 and task.word & LIFE != 0]
        else:
            chosen = [find_task(argument)]
        for task in chosen:
            print("task %d %s, %s%s, carrier %d, spawned at %s" % (
                task.id, '"%s"' % task.name, task.state(),
                " for " + task.waits_for if task.waits_for else "", task.carrier, task.site))
            print(backtrace(task))


class UseCommand(gdb.Command):
    """weft use [ID] - show task ID above frame 0 of this OS thread, until it continues.
Without ID: the OS thread as it is. Registers are not written."""

    def __init__(self):
        super().__init__("weft use", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            UNWINDER.drop()
            return
        task = find_task(argument)
        if not task.has_frame():
            raise gdb.GdbError("weft: task %d %s" % (
                task.id, "runs: switch to its OS thread" if task.running else "has no saved frame"))
        UNWINDER.choose(task)
        gdb.execute("frame 1")


WeftCommand()
TasksCommand()
BacktraceCommand()
UseCommand()
