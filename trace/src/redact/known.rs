//! What is known to be harmless: texts that PyTorch, its companions and Python write themselves.
//!
//! Every test here uses a list or a grammar, and refuses what it does not know.

/// Stands before an installed package.
pub(super) const INSTALLED: &str = "…/site-packages/";

const MARKERS: [&str; 2] = ["site-packages/", "dist-packages/"];

/// Packages under `site-packages` whose files and functions are public knowledge.
const PACKAGES: &str = "
    IPython _distutils_hack accelerate apex bitsandbytes causal_conv1d causal_conv_1d_cuda
    compressed_tensors cuda cupy datasets deepspeed diffusers einops evaluate fairscale fla
    flash_attn flash_attn_2_cuda fsspec functorch huggingface_hub ignite ipykernel jupyter_client
    lightning lightning_fabric liger_kernel mamba_ssm megatron ml_dtypes numpy nvidia optimum
    packaging pandas peft pip pkg_resources pluggy psutil pyarrow pytest pytorch_lightning ray
    requests safetensors scipy sentence_transformers sentencepiece setuptools sklearn six sympy
    tensorboard tensordict threadpoolctl timm tokenizers torch torch_geometric torch_scatter
    torch_sparse torchao torchaudio torchdata torchmetrics torchrun torchtext torchtitan torchtune
    torchvision tornado tqdm traitlets transformer_engine transformers triton trl
    typing_extensions unsloth unsloth_zoo urllib3 vllm wandb xformers yaml zmq";

/// Modules of Python's own library, of all its versions.
const STANDARD: &str = "
    __future__ _bootlocale _collections_abc _compat_pickle _compression _markupbase _osx_support
    _py_abc _pydatetime _pydecimal _pyio _pylong _strptime _sysconfigdata _threading_local
    _weakrefset
    abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb
    binascii bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop
    collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg
    crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email
    encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch formatter
    fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip
    hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress
    itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math
    mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath
    nturl2path numbers opcode operator optparse os ossaudiodev parser pathlib pdb pickle
    pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty
    pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib
    resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site
    smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl
    stat statistics string stringprep struct subprocess sunau symbol symtable sys sysconfig syslog
    tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter token
    tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing unicodedata
    unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib
    xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// Files of PyTorch's and Python's binaries, as debug information has them: without folders.
const NATIVE_FILES: &str = "
    ADInplaceOrViewType.cpp BatchRulesBinaryOps.cpp BatchRulesScatterOps.cpp Blas.cpp
    CUDACachingAllocator.cpp DynamicLayer.cpp EmptyTensor.cpp Functions.cpp KernelFunction.h
    KernelFunction_impl.h Linear.cpp LinearAlgebra.cpp PyInterpreter.cpp ReduceOps.cpp
    RegisterBackendSelect.cpp RegisterCPU.cpp RegisterCUDA.cpp
    RegisterCompositeExplicitAutograd.cpp RegisterCompositeExplicitAutogradNonFunctional.cpp
    RegisterCompositeImplicitAutograd.cpp TensorFactories.cpp TensorImpl.cpp VariableType.cpp
    VmapInterpreter.cpp WrapFunctionIntoFunctor.h WrapFunctionIntoRuntimeFunctor.h abstract.c
    abstract.h accumulate_grad.cpp attention.cpp autograd_not_implemented_fallback.cpp bytecodes.c
    call.c ceval.c classobject.c custom_function.cpp descrobject.c dictobject.c engine.cpp
    eval_frame_cpp.cpp function.cpp generated_cases.c.h init.cpp input_buffer.cpp libc-start.c
    libc_start_call_main.h main.c make_boxed_from_unboxed_functor.h memory_snapshot.cpp
    methodobject.c object.c pthread_create.c pycore_call.h pycore_ceval.h python_comm.cpp
    python_function.cpp python_nn_functions.cpp python_torch_functions.cpp
    python_torch_functions_manual.cpp python_variable.cpp python_variable_indexing.cpp
    python_variable_methods.cpp pythonrun.c register_c10_ops.cpp tensor.cpp tensor_new.cpp
    thread.cc typeobject.c";

/// Folders of those files, by which a frame is recognised as plumbing (`Stacks::is_plumbing`).
const NATIVE_FOLDERS: [&str; 5] = ["Modules", "Objects", "Python", "boxing", "cpython"];

/// Functions whose names PyTorch, its trainers and Python prescribe.
const FUNCTIONS: &str = "
    <module> <lambda> <listcomp> <genexpr> <dictcomp> <setcomp> <locals> __call__ __del__
    __enter__ __exit__ __getitem__ __init__ __iter__ __len__ __new__ __next__ __post_init__
    __torch_dispatch__ __torch_function__ backward compute_loss evaluate forward main
    optimizer_step pack_hook setup_context step train train_step training_step unpack_hook
    validation_step wrapper zero_grad";

const OPTIMIZERS: &str = "
    ASGD Adadelta Adafactor Adagrad Adam Adam8bit AdamW AdamW8bit Adamax DistributedFusedAdam
    FusedAdam FusedLAMB LAMB LBFGS Lion Muon NAdam PagedAdamW PagedAdamW8bit RAdam RMSprop Rprop
    SGD SOAP Shampoo SparseAdam ZeroRedundancyOptimizer";

/// Words that may be shown in scopes; other words may name a project.
const SCOPE_WORDS: &str = "
    accumulate accumulation and attention backward batch checkpoint clip compute data dataloader
    epoch eval evaluate evaluation finetune forward grad gradient gradients init iter iteration
    load loss lr micro microbatch minibatch model norm of optim optimizer pass reduce run save
    scaler scheduler setup step sync test the train training transfer update val validate
    validation warmup zero";

/// Scopes that PyTorch writes.
const SCOPES: [&str; 8] = [
    "DistributedDataParallel.forward",
    "DataParallel.forward",
    "FullyShardedDataParallel.forward",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    "Torch-Compiled Region",
    "CompiledFunctionBackward",
];

const COLLECTIVES: &str = "
    all_gather all_gather_into_tensor all_reduce all_reduce_barrier all_to_all allreduce_coalesced
    barrier broadcast coalesced gather recv reduce reduce_scatter reduce_scatter_tensor scatter
    send";

/// What a block may be for, in the words of PyTorch and of this program.
const CATEGORIES: &str = "
    ACTIVATION AUTOGRAD_DETAIL GRADIENT INPUT OPTIMIZER_STATE PARAMETER TEMPORARY UNKNOWN
    activation activations autograd_detail buffer gradient gradients input optimizer
    optimizer_state parameter parameters temporary unknown weights";

const TYPES: &str = "
    bfloat16 bool complex128 complex64 cpu cuda double dtype float float16 float32 float64
    float8_e4m3fn float8_e5m2 half int int16 int32 int64 int8 long shape short size torch uint8";

const SETTINGS: &str = "
    PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF backend expandable_segments
    garbage_collection_threshold graph_capture_record_stream_reuse last_allocator_settings
    max_non_split_rounding_mb max_non_split_rounding_size max_split_size max_split_size_mb
    per_process_memory_fraction pinned_max_power2_size_mb pinned_max_register_threads
    pinned_num_register_threads pinned_reserve_segment_size_mb pinned_use_background_threads
    pinned_use_cuda_host_register release_lock_on_cudamalloc release_lock_on_hipmalloc
    roundup_power2_divisions throw_on_cudamalloc_oom";

const VALUES: &str = "True False true false None native cudaMallocAsync";

/// A number with more digits is no size, count or level.
const NUMBER_DIGITS: usize = 20;

/// A name of one part that is longer was not written by a person.
const WORD_CHARS: usize = 64;

fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == word)
}

/// Letters, digits and `_`, not too many.
pub(super) fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.len() <= WORD_CHARS && text.chars().all(fits)
}

/// An integer or a decimal, with its sign.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let count = |digits: &str| {
        let all = digits.chars().all(|c| c.is_ascii_digit());
        all && (1..=NUMBER_DIGITS).contains(&digits.len())
    };
    count(whole) && count(part)
}

/// The part of a path (with `/`) after `site-packages/`.
pub(super) fn installed(path: &str) -> Option<&str> {
    let ends = MARKERS.map(|marker| path.rfind(marker).map(|at| at + marker.len()));
    let at = ends.into_iter().flatten().max()?;
    Some(&path[at..])
}

/// A file as it is shown; `None` if it is not known.
pub(super) fn file(path: &str) -> Option<String> {
    if let "" | "??" | "<string>" | "<stdin>" = path {
        return Some(path.to_owned());
    }
    if let Some(frozen) = path.strip_prefix("<frozen ") {
        let module = frozen.strip_suffix('>')?;
        let own = is_in(STANDARD, module.split('.').next()?);
        return (own && module.split('.').all(is_word)).then(|| path.to_owned());
    }
    if let Some(number) = path.strip_prefix("<eval_with_key>") {
        let counts = number.is_empty() || number.strip_prefix('.').is_some_and(is_number);
        return counts.then(|| path.to_owned());
    }
    let path = path.replace('\\', "/");
    if let Some(tail) = installed(&path) {
        return is_module_of(tail, PACKAGES).then(|| format!("{INSTALLED}{tail}"));
    }
    if let Some((version, tail)) = standard_library(&path) {
        return is_module_of(tail, STANDARD).then(|| format!("…/lib/{version}/{tail}"));
    }
    native_file(&path)
}

/// Whether a path such as `json/decoder.py` or `torch/lib/libtorch_cuda.so` lies in a module of the
/// list, with only words as its other parts.
fn is_module_of(tail: &str, list: &str) -> bool {
    let (folders, name) = tail.rsplit_once('/').unwrap_or(("", tail));
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let top = match folders.split('/').next() {
        None | Some("") => stem,
        Some(folder) => folder,
    };
    let plain = folders.is_empty() || folders.split('/').all(is_word);
    let endings = ["py", "pyx", "so", "cpp", "cu", "h"];
    is_in(list, top) && plain && is_word(stem) && endings.contains(&ending)
}

/// `python3.12` and what follows `lib/python3.12/`.
fn standard_library(path: &str) -> Option<(&str, &str)> {
    let at = path.rfind("/lib/python3.")? + "/lib/".len();
    let (version, tail) = path[at..].split_once('/')?;
    let minor = version.strip_prefix("python3.")?;
    (minor.len() <= 2 && is_number(minor)).then_some((version, tail))
}

fn native_file(path: &str) -> Option<String> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    // Generated files are numbered: `VariableType_3.cpp`.
    let (stem, ending) = name.split_once('.')?;
    let family = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let family = family.strip_suffix('_').unwrap_or(stem);
    let is_known = is_in(NATIVE_FILES, name)
        || (stem.len() - family.len() <= 4 && is_in(NATIVE_FILES, &format!("{family}.{ending}")));
    if !is_known {
        return None;
    }
    let folder = folders.rsplit('/').next().unwrap_or_default();
    Some(match (folders, NATIVE_FOLDERS.contains(&folder)) {
        ("", _) => name.to_owned(),
        (_, true) if folder == "boxing" => format!("…/core/boxing/{name}"),
        (_, true) => format!("…/{folder}/{name}"),
        (_, false) => format!("…/{name}"),
    })
}

/// Whether a function's name may be shown: it is in a known file, or PyTorch prescribes it.
pub(super) fn function(name: &str, of: &str) -> bool {
    let place = file(of).filter(|shown| shown.starts_with(['…', '<']));
    // Code that runs from a string may be anybody's.
    let is_own = place.is_some_and(|shown| shown.contains('/') || shown.starts_with("<frozen"));
    name.is_empty() || is_in(FUNCTIONS, name) || (is_own && is_python_name(name))
}

/// `forward`, `Module._call_impl`, `outer.<locals>.<lambda>`.
fn is_python_name(name: &str) -> bool {
    let known = |part: &str| part.starts_with('<') && is_in(FUNCTIONS, part);
    name.split('.').all(|part| is_word(part) || known(part))
}

/// Whether a scope, or a step, may be shown.
pub(super) fn scope(name: &str) -> bool {
    if SCOPES.contains(&name) {
        return true;
    }
    if let Some(collective) = name.strip_prefix("nccl:") {
        return is_in(COLLECTIVES, collective);
    }
    for method in ["step", "zero_grad"] {
        let call = name.strip_prefix("Optimizer.");
        let call = call.and_then(|rest| rest.strip_prefix(method)?.strip_prefix('#'));
        if let Some(call) = call {
            let class = call.strip_suffix(method).and_then(|c| c.strip_suffix('.'));
            return class.is_some_and(|class| is_in(OPTIMIZERS, class));
        }
    }
    if let Some(number) = name.strip_prefix("ProfilerStep#") {
        return is_count(number);
    }
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || " _-#:/".contains(c));
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let known = |word: &str| word.is_empty() || is_count(word) || scope_word(word);
    plain && name.len() <= WORD_CHARS && words.all(known)
}

/// `step`, `Step`, `step7`.
fn scope_word(word: &str) -> bool {
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    word.len() - stem.len() <= 6 && is_in(SCOPE_WORDS, &stem.to_ascii_lowercase())
}

fn is_count(text: &str) -> bool {
    (1..=6).contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit())
}

/// Whether metadata may be shown: a category, or shapes and types of tensors.
pub(super) fn metadata(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "[](),.:_ x".contains(c);
    // The digits of a dimension: no tensor has more, but telephone numbers do.
    let size = |word: &str| word.len() <= 9 && word.chars().all(|c| c.is_ascii_digit());
    let sizes = |word: &str| word.split('x').all(size);
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    is_in(CATEGORIES, text)
        || (text.len() <= 2 * WORD_CHARS
            && text.chars().all(plain)
            && words.all(|word| is_in(TYPES, word) || sizes(word)))
}

/// Whether a compile context may be shown: which frame was compiled, which compilation of it, and
/// which attempt.
pub(super) fn context(text: &str) -> bool {
    text == "N/A" || text.split(['/', '_']).all(is_count)
}

/// Whether the name of a setting may be shown: `roundup_power2_divisions.256`.
pub(super) fn setting(name: &str) -> bool {
    let mut parts = name.split('.');
    is_in(SETTINGS, parts.next().unwrap_or_default()) && parts.all(is_number)
}

/// Whether the value of a known setting may be shown: a number, a switch, or settings in one line.
pub(super) fn value(text: &str) -> bool {
    let mut words = text.split([',', ';', ':', '[', ']', '>', ' ', '{', '}']);
    words.all(|word| {
        let word = word.trim_matches('\'');
        word.is_empty() || is_number(word) || is_in(VALUES, word) || is_in(SETTINGS, word)
    })
}
