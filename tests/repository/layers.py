"""Who may include and link what: kernels <- ps <- actors <- {tools, examples}, and every library in its own folder.

The two tables below are the rule; `violations(root)` lists what breaks it, one sentence each.
"""
import re
from pathlib import Path

# What each folder may use besides itself. Tests see everything, and nobody sees tests.
BELOW = {
    "kernels": [],
    "ps": ["kernels"],
    "actors": ["kernels", "ps"],
    "tools": ["kernels", "ps", "actors"],
    "examples": ["kernels", "ps", "actors"],
}

# Library, its headers, its names in CMake, and the folders that may use it.
LIBRARIES = [
    ("expected", r"tl/expected\.hpp", r"tl::expected", ["kernels/base"]),
    ("OpenMP", r"omp\.h", r"OpenMP::|OpenMP", ["kernels/tensor", "kernels/ops/cpu"]),
    ("OpenBLAS", r"cblas\.h|openblas.*", r"OPENBLAS|CBLAS", ["kernels/ops/cpu"]),
    ("oneDNN", r"(oneapi/dnnl/)?dnnl.*", r"DNNL::|dnnl", ["kernels/ops/cpu"]),
    ("CUDA", r"cu(da|blas).*|nvtx3/.*", r"CUDA::|CUDAToolkit",
     ["kernels/tensor/cuda", "kernels/ops/cuda", "kernels/collective/nccl"]),
    ("cuDNN", r"cudnn.*", r"CUDNN", ["kernels/ops/cuda/cudnn"]),
    ("NCCL", r"nccl\.h", r"NCCL|nccl", ["kernels/collective/nccl"]),
    ("zlib", r"zlib\.h", r"ZLIB::|ZLIB", ["ps/data"]),
    ("Cap'n Proto", r"(capnp|kj)/.*|.*\.capnp\.h", r"CapnProto|CAPNP", ["ps/wire", "ps/transport"]),
    ("ZeroMQ", r"zmq.*", r"ZMQ|cppzmq", ["ps/transport", "tools/bench"]),
    ("toml++", r"toml(plusplus|\+\+)?/.*|toml\.hpp", r"tomlplusplus|TOMLPLUSPLUS", ["ps/config"]),
    ("JSON", r"nlohmann/.*", r"nlohmann_json", ["ps/config", "ps/checkpoint", "ps/metrics", "ps/data"]),
    ("PCRE2", r"pcre2.*\.h", r"PCRE2", ["ps/data"]),
    ("xxHash", r"xxhash\.h", r"XXHASH", ["ps/checkpoint", "ps/wire", "ps/transport"]),
    # Whoever makes the actor system that a cluster lives in is a caller of CAF: the command line and the stories.
    ("CAF", r"caf/.*", r"CAF", ["actors", "tools", "examples"]),
    ("CLI11", r"CLI/.*", r"CLI11", ["tools"]),
    # What Troupe is measured beside; compiled when that is asked for.
    ("gloo", r"gloo/.*", r"gloo", ["tools/bench"]),
    ("MPI", r"mpi\.h", r"MPI::|mpicc", ["tools/bench"]),
    ("Boost", r"boost/.*", r"Boost", []),
    # The compiler's: what a sanitizer is told that it cannot see.
    ("sanitizers", r"sanitizer/[at]san_interface\.h", r"libasan|libtsan", ["kernels/tensor", "ps/transport"]),
]

# C and POSIX headers that are used as they are; everything of C++ itself has neither slash nor dot.
SYSTEM = re.compile(r"[a-z_0-9]+|(sys|net|netinet|arpa|linux)/[a-z_0-9]+\.h|"
                    r"(cpuid|dlfcn|dirent|fcntl|ifaddrs|immintrin|malloc|netdb|poll|pthread|sched|signal|spawn|"
                    r"unistd)\.h")

# Folders whose headers are not installed, so that they may name a library.
INTERNAL = {"cpu", "cuda", "nccl", "internal"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
LINK = re.compile(r"target_link_libraries\(\s*(\S+)\s+([^)]*)\)")
SOURCES = {".h", ".cc", ".cu", ".cuh"}


def inside(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def library_of(include):
    return next((entry for entry in LIBRARIES if re.fullmatch(entry[1], include)), None)


def is_public(path):
    folders = path.split("/")[:-1]
    return path.endswith(".h") and folders[0] in ("kernels", "ps", "actors") and not INTERNAL & set(folders)


def check_include(path, include, root):
    """The sentence about one include of one file, or None. `path` is relative to the root, with slashes."""
    top = path.split("/")[0]
    beside = (root / path).parent / include
    # Tools and examples are not installed, so that nobody sees them as <troupe/...>.
    if include.startswith(("troupe/", "tools/", "examples/")):
        inner = include.removeprefix("troupe/")
        target = inner.split("/")[0]
        if not (root / inner).exists():
            return f"{path} includes <{include}>, which does not exist"
        if target != top and target not in BELOW[top]:
            return f"{path} includes <{include}>: {top} may not use {target}"
        if is_public(path) and not is_public(inner):
            return f"{path} includes <{include}>, which is not installed with it"
        return None
    if include.startswith("tests/"):
        return f"{path} includes <{include}>: nobody but the tests may use tests"
    if beside.exists():
        if top not in ("kernels", "ps", "actors"):
            return None
        return f'{path} includes "{include}" by a relative path; write <troupe/...>'
    library = library_of(include)
    if library:
        name, _, _, folders = library
        if not inside(path, folders):
            where = ", ".join(folders) or "the tests"
            return f"{path} includes <{include}>: {name} is for {where} only"
        if is_public(path) and top != "actors" and name != "expected":
            return f"{path} includes <{include}>: a public header may not name {name}"
        return None
    if not SYSTEM.fullmatch(include):
        return f"{path} includes <{include}>, a library that tests/repository/layers.py does not know"
    return None


def check_source(path, text, root):
    found = INCLUDE.findall(text)
    for include in found:
        sentence = check_include(path, include, root)
        if sentence:
            yield sentence
    # A source that includes its own header first proves that the header stands alone.
    own = Path(path).with_suffix(".h")
    if path.endswith(".cc") and (root / own).exists() and found[:1] != [f"troupe/{own.as_posix()}"]:
        if path.split("/")[0] in ("kernels", "ps", "actors"):
            yield f"{path} does not include <troupe/{own.as_posix()}> first"


def check_cmake(path, text):
    top = path.split("/")[0]
    # kernels/CMakeLists.txt links for all of kernels/, so a library may appear if any folder in there may use it.
    for line in text.splitlines():
        code = line.split("#")[0]
        for name, _, pattern, folders in LIBRARIES:
            if re.search(rf"(?<![A-Za-z_])({pattern})", code) and not any(f.split("/")[0] == top for f in folders):
                yield f"{path} names {name}, which is for {', '.join(folders) or 'the tests'} only: {code.strip()}"
    for target, arguments in LINK.findall(text):
        scope = "PUBLIC"
        for word in arguments.split():
            if word in ("PUBLIC", "PRIVATE", "INTERFACE"):
                scope = word
                continue
            linked = re.fullmatch(r"troupe_(kernels|ps|actors)", word)
            if linked and linked[1] != top and linked[1] not in BELOW[top]:
                yield f"{path} links {target} to {word}: {top} may not use {linked[1]}"
            third_party = any(re.search(rf"(?<![A-Za-z_])({entry[2]})", word) for entry in LIBRARIES)
            if third_party and scope != "PRIVATE" and top in ("kernels", "ps"):
                yield f"{path} links {target} to {word} as {scope}; a library below the actors is PRIVATE"


def violations(root):
    root = Path(root)
    found = []
    for top in BELOW:
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix in SOURCES:
                found += check_source(path, file.read_text(), root)
            elif file.name == "CMakeLists.txt":
                found += check_cmake(path, file.read_text())
    return found
