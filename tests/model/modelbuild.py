"""Builds model programs: real sources, instrumented, linked against our engine.

A model program is one file `*_model.c` (or `selftest*.c`). Its top comment names the sources it
checks, relative to src/, headers with atomic operations that it checks, files of this folder that
it needs, and more compiler flags:

    // Sources: sched/inbox.c sched/park.c
    // Headers: sched/inbox.h
    // With: stage.c
    // Flags: -DWEFT_TINY=1

The mutation gate changes exactly the sources and headers that are named.

Model and sources are compiled with -fsanitize=thread, which makes the compiler call a hook for
every memory access. The engine is compiled without it and implements the hooks.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SRC = ROOT / "src"
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 2)

COMMON = ["-std=gnu17", "-g", "-fno-omit-frame-pointer", "-D_GNU_SOURCE", "-DWEFT_MODEL=1"]
# gcc warns that the real sanitizer does not understand fences; ours does.
INSTRUMENTED = ["-O1", "-fsanitize=thread", "-Wno-unknown-warning-option", "-Wno-tsan"]
ENGINE = ["-O2", "-Wall", "-Wextra", "-Werror"]
WRAPPED = ["memcpy", "memmove", "memset", "abort"]
# Fixed addresses, so that a trace's program counters mean something to addr2line.
# A model brings only what it needs: calling anything else is a call of address 0, which the engine
# reports as a crash of the model.
LINK = ["-no-pie", "-Wl,--unresolved-symbols=ignore-all"]
LINK += [f"-Wl,--wrap={name}" for name in WRAPPED]


class BuildError(Exception):
    """A compiler or linker failed; the text is its output."""


def execute(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()[:30]
        raise BuildError("\n".join([" ".join(map(str, command)), *lines]))


def parallel(function, items):
    """Calls function(item) for all items and yields the results in order, as they come."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        yield from pool.map(function, items)


@dataclasses.dataclass(frozen=True)
class Model:
    """One model program."""

    path: pathlib.Path
    sources: tuple  # of str, relative to src/
    headers: tuple  # likewise
    helpers: tuple  # of str, relative to this folder
    flags: tuple

    @property
    def name(self):
        return self.path.stem


def find_models(pattern="*"):
    """All model programs whose name matches, self tests first."""
    paths = sorted(HERE.glob("selftest*.c")) + sorted(HERE.glob("*_model.c"))
    models = []
    for path in paths:
        if not re.search(pattern.replace("*", ".*"), path.stem):
            continue
        head = path.read_text().split("#include", 1)[0]
        words = {"Sources": (), "Headers": (), "With": (), "Flags": ()}
        for key in words:
            words[key] = tuple(
                word
                for line in re.findall(rf"^// {key}:(.*)$", head, re.M)
                for word in line.split()
            )
        models.append(Model(path, *words.values()))
    return models


class Builder:
    """Compiles into one directory with one compiler."""

    def __init__(self, build_dir, compiler):
        self.compiler = compiler
        self.dir = pathlib.Path(build_dir).resolve() / pathlib.Path(compiler).name
        self.dir.mkdir(parents=True, exist_ok=True)

    # Objects.

    def _is_fresh(self, output, depfile):
        if not output.exists() or not depfile.exists():
            return False
        made = output.stat().st_mtime
        try:
            return all(os.stat(path).st_mtime <= made for path in read_depfile(depfile))
        except FileNotFoundError:
            return False

    def _compile(self, source, output, flags):
        depfile = output.with_suffix(".d")
        if self._is_fresh(output, depfile):
            return output
        output.parent.mkdir(parents=True, exist_ok=True)
        includes = [f"-I{path}" for path in (SRC, ROOT / "include", HERE, HERE / "engine")]
        command = [self.compiler, *COMMON, *flags, *includes, "-MMD", "-MF", depfile]
        execute([*command, "-c", source, "-o", output])
        return output

    def engine(self):
        """The engine as one object whose own copies bypass the wrapped functions."""
        sources = sorted((HERE / "engine").glob("*.[cS]"))
        whole = self.dir / "engine.o"
        objects = list(
            parallel(
                lambda path: self._compile(path, self.dir / "engine" / (path.name + ".o"), ENGINE),
                sources,
            )
        )
        if whole.exists() and all(o.stat().st_mtime <= whole.stat().st_mtime for o in objects):
            return whole
        execute(["ld", "-r", "-o", whole, *objects])
        redefined = [f"--redefine-sym={name}=__real_{name}" for name in WRAPPED]
        execute(["objcopy", *redefined, whole])
        return whole

    def parts_of(self, model):
        """(file, its instrumented object) for all that a model is made of."""
        flavour = "_".join(flag.strip("-").replace("=", "_") for flag in model.flags)
        files = [model.path, *(HERE / name for name in model.helpers)]
        files += [SRC / name for name in model.sources]
        parts = []
        for path in files:
            output = self.dir / ("obj" + flavour) / (str(path.relative_to(ROOT)) + ".o")
            own = [] if path.is_relative_to(SRC) else ["-Wall", "-Wextra"]
            flags = [*INSTRUMENTED, *own, *model.flags]
            parts.append((path, self._compile(path, output, flags)))
        return parts

    # Programs.

    def link(self, output, objects):
        execute([self.compiler, *LINK, "-o", output, *objects, self.engine()])
        return output

    def program(self, model):
        objects = [made for _, made in self.parts_of(model)]
        output = self.dir / model.name
        newest = max(path.stat().st_mtime for path in [*objects, self.engine()])
        if output.exists() and output.stat().st_mtime >= newest:
            return output
        return self.link(output, objects)

    # Mutants: a file of src/ replaced by a changed copy that lies in `overlay`.

    def mutant(self, model, changed, overlay):
        """Links the model with the file `changed` taken from below `overlay`; None if unrelated."""
        flags = [*INSTRUMENTED, "-w", f"-I{overlay}", *model.flags]
        objects = []
        related = False
        for path, made in self.parts_of(model):
            if depends_on(made, changed):
                related = True
                path = overlay / changed if path == SRC / changed else path
                target = overlay / made.relative_to(self.dir)
                made = target if target.exists() else self._compile(path, target, flags)
            objects.append(made)
        return self.link(overlay / model.name, objects) if related else None


def read_depfile(path):
    text = path.read_text().replace("\\\n", " ")
    return text.split(":", 1)[1].split()


def depends_on(object_path, changed):
    wanted = str(SRC / changed)
    names = read_depfile(object_path.with_suffix(".d"))
    return any(os.path.normpath(name) == wanted for name in names)
