//! Whose code a frame is, and what to call it. Framework code is defined only here: `trace`, the
//! server and the page all use this.

use std::borrow::Cow;

/// A path with slashes, also when it was recorded on Windows. All rules about paths look at this;
/// what is shown is the path as it was recorded.
pub fn slashed(path: &str) -> Cow<'_, str> {
    match path.contains('\\') {
        true => Cow::Owned(path.replace('\\', "/")),
        false => Cow::Borrowed(path),
    }
}

/// Whether a file is Python: a `.py` file, or code from a notebook, `exec` or `torch.fx`.
pub fn is_python(filename: &str, line: u32) -> bool {
    line > 0 && (filename.ends_with(".py") || filename.starts_with('<'))
}

/// The part of a path that does not depend on where a program is installed: the part after
/// `site-packages`, otherwise the file's name.
pub fn module(path: &str) -> &str {
    for marker in ["site-packages", "dist-packages"] {
        let mut tails = path.rmatch_indices(marker);
        let tail = tails.find_map(|(at, _)| {
            let tail = &path[at + marker.len()..];
            tail.strip_prefix(['/', '\\'])
        });
        if let Some(tail) = tail {
            return tail;
        }
    }
    file_name(path)
}

/// The file's name at the end of a path, with slashes or backslashes.
pub fn file_name(path: &str) -> &str {
    last_components(path, 1)
}

/// The last components of a path, with slashes or backslashes; the whole path if it has no more.
pub fn last_components(path: &str, count: usize) -> &str {
    // By bytes: a path may be long, and every stack has some.
    let slashes = path.bytes().enumerate().rev();
    let mut slashes = slashes.filter(|(_, byte)| matches!(byte, b'/' | b'\\'));
    let before = count.checked_sub(1).and_then(|more| slashes.nth(more));
    &path[before.map_or(0, |(at, _)| at + 1)..]
}

/// Whether a file belongs to a package that is installed beside the program.
pub fn is_installed(filename: &str) -> bool {
    slashed(filename).contains("-packages/")
}

/// Whether a frame belongs to PyTorch, to C++ or to Python's own library: true of most innermost
/// frames, and never the answer to "whose code keeps this?".
pub fn is_framework(filename: &str, line: u32) -> bool {
    if !is_python(filename, line) || filename.starts_with("<frozen") {
        return true;
    }
    let file = slashed(filename);
    match module(&file) {
        tail if tail.len() < file.len() && tail.starts_with("torch/") => true,
        _ if file.contains("-packages/") => false,
        _ => file.contains("/lib/python3") || is_of_python_on_windows(&file),
    }
}

/// Whether this is a cell of a notebook. IPython numbers cells by when they ran
/// (`<ipython-input-12-…>`), ipykernel names them after their content
/// (`/tmp/ipykernel_9/1234567.py`): so the name says nothing of which cell it is.
pub fn is_cell(filename: &str) -> bool {
    let mut parts = filename.rsplit(['/', '\\']);
    let name = parts.next().and_then(|name| name.strip_suffix(".py"));
    let folder = parts.next().unwrap_or_default();
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    filename.starts_with("<ipython-input-")
        || folder.starts_with("ipykernel_") && name.is_some_and(is_number)
}

/// Whether `torch.compile` wrote this code: a file of Inductor, or a graph of FX. Nobody can change
/// it, so nobody is told to.
pub fn is_generated(filename: &str) -> bool {
    is_of_inductor(filename) || filename.starts_with("<eval_with_key>")
}

/// Whether Inductor wrote a file. Its folder is called so, unless `TORCHINDUCTOR_CACHE_DIR` names
/// another; a file is called by its content everywhere.
pub fn is_of_inductor(filename: &str) -> bool {
    filename.contains("torchinductor") || is_called_by_content(filename)
}

/// Whether a file is `ab/cab….py`: a `c` and 51 digits of base 32, in a folder that is called by
/// the second and third of these characters.
fn is_called_by_content(filename: &str) -> bool {
    let mut parts = filename.rsplit(['/', '\\']);
    let name = parts.next().and_then(|name| name.strip_suffix(".py"));
    let (Some(name), Some(folder)) = (name, parts.next()) else {
        return false;
    };
    let is_digit = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
    let is_hash = name.len() == 52 && name.starts_with('c') && name.bytes().all(is_digit);
    is_hash && *folder == name[1..3]
}

/// Whether a file lies in Python's own library on Windows: in `Lib` of an installation
/// (`Python312`), of Conda or of an environment. Elsewhere a folder may be called so.
fn is_of_python_on_windows(file: &str) -> bool {
    if file.as_bytes().get(1) != Some(&b':') {
        return false;
    }
    let folders: Vec<String> = file.split('/').map(str::to_ascii_lowercase).collect();
    folders.windows(3).any(|at| {
        let [above, installation, lib] = at else {
            return false;
        };
        let is_python = installation.contains("python") && installation.contains('3');
        let is_conda = ["conda3", "forge3"]
            .iter()
            .any(|end| installation.ends_with(end));
        lib == "lib" && (is_python || is_conda || above == "envs")
    })
}

/// What a C++ frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// The operation that the program asked for: `at::_ops::mm`, an autograd node, a workspace.
    Operation,
    /// Its implementation, or anything else.
    Other,
    /// The allocator, the dispatcher, the making of an empty tensor, the recorder.
    Machinery,
}

/// What a C++ function is for.
pub fn native(function: &str) -> Native {
    const MACHINERY: [&str; 18] = [
        "c10::",
        "at::_ops::",
        "at::detail::",
        "at::empty",
        "at::(anonymous namespace)::",
        "at::native::empty",
        "at::native::_empty",
        "at::native::new_empty",
        "at::native::resize",
        "torch::autograd::VariableType::",
        "torch::autograd::Engine",
        "torch::autograd::python::",
        "torch::autograd::utils::",
        "torch::CapturedTraceback",
        "torch::cuda::(anonymous namespace)::gather",
        "torch::unwind",
        "std::",
        "__clone",
    ];
    if operation(function).is_some() {
        return Native::Operation;
    }
    match MACHINERY.iter().any(|part| function.starts_with(part)) {
        true => Native::Machinery,
        false => Native::Other,
    }
}

/// The operation that a C++ function names: `mm` of `at::_ops::mm::call(…)`, `MmBackward0` of its
/// autograd node. Making an empty tensor does not count: it was made for an operation.
fn operation(function: &str) -> Option<&str> {
    if let Some(rest) = function.strip_prefix("at::_ops::") {
        let name = rest.split("::").next()?;
        let empty = name.starts_with("empty") || name.starts_with("new_empty");
        return (!empty && !name.starts_with("resize_")).then_some(name);
    }
    if let Some(rest) = function.strip_prefix("torch::autograd::generated::") {
        // All autograd nodes have `generated::details` in common.
        let mut names = rest.split("::").filter(|name| *name != "details");
        return names.next().filter(|name| !name.contains('('));
    }
    let name = without_arguments(function);
    // Nodes that are written by hand: `torch::autograd::AccumulateGrad::apply`.
    let node = name.strip_prefix("torch::autograd::");
    if let Some(node) = node.and_then(|name| name.strip_suffix("::apply"))
        && !node.contains("::")
        && node != "Node"
    {
        return Some(node);
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    (name.starts_with("at::cuda::") && last.contains("Workspace")).then_some(last)
}

/// What to call a function. C++: the operation, or the name without namespaces and arguments.
/// Python: the name as it is.
pub fn function_name(function: &str) -> &str {
    if !function.contains("::") {
        return function;
    }
    if let Some(operation) = operation(function) {
        return operation;
    }
    without_arguments(function)
}

/// A frame in one line, as a person would write it: a C++ function by its operation, and a file or
/// a line only where they are known (`docs/categories.md`, *Names*). `shown` makes the parts fit to
/// be shown.
pub fn frame_line<'a>(
    (name, file, line): (&'a str, &'a str, u32),
    shown: impl Fn(&'a str) -> Cow<'a, str>,
) -> String {
    let function = function_name(name);
    let is_shortened = function.len() < name.len();
    let (function, file) = (shown(function), shown(file));
    match (&*file, line) {
        ("" | "??", _) => function.into_owned(),
        // If a function has no line, its C++ file says nothing.
        (_, 0) if is_shortened => function.into_owned(),
        (file, 0) => format!("{function} {file}"),
        (file, line) => format!("{function} {file}:{line}"),
    }
}

/// A C++ name up to its arguments; `(anonymous namespace)` is part of it.
fn without_arguments(function: &str) -> &str {
    const ANONYMOUS: &str = "(anonymous namespace)";
    let mut from = 0;
    while let Some(at) = function[from..].find('(').map(|at| at + from) {
        if !function[at..].starts_with(ANONYMOUS) {
            return &function[..at];
        }
        from = at + ANONYMOUS.len();
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_components_of_a_path() {
        let check = |path, count, expected| assert_eq!(last_components(path, count), expected);
        check("/srv/model/norm.py", 1, "norm.py");
        check("/srv/model/norm.py", 2, "model/norm.py");
        check(r"C:\model\norm.py", 1, "norm.py");
        check("norm.py", 2, "norm.py");
        check("/norm.py", 2, "/norm.py");
        check("/srv/", 1, "");
        check("", 1, "");
        check("/größe/née.py", 2, "größe/née.py");
    }

    #[test]
    fn framework_code_is_told_from_the_program_s() {
        let check = |file: &str, line, expected| {
            assert_eq!(is_framework(file, line), expected, "{file}");
        };
        check("/v/site-packages/torch/nn/modules/linear.py", 134, true);
        check("/usr/lib/python3.12/threading.py", 9, true);
        check("<frozen importlib._bootstrap>", 9, true);
        check("CUDACachingAllocator.cpp", 0, true);
        check("??", 0, true);
        check("", 0, true);
        check("/v/site-packages/transformers/modeling.py", 9, false);
        check("/home/me/torch/train.py", 9, false);
        check("<ipython-input-3>", 9, false);
        assert!(is_cell("<ipython-input-3-ab12>") && is_cell("/tmp/ipykernel_9/123.py"));
        assert!(is_cell(r"C:\Temp\ipykernel_9\123.py") && !is_cell("/tmp/ipykernel_9/run.py"));
        let of_windows = [
            (r"C:\v\Lib\site-packages\torch\nn\modules\linear.py", true),
            (r"C:\Programs\Python\Python312\Lib\threading.py", true),
            (r"C:\Users\me\miniconda3\lib\threading.py", true),
            (r"C:\Users\me\miniconda3\envs\train\lib\threading.py", true),
            (r"C:\v\Lib\site-packages\transformers\modeling.py", false),
            (r"C:\Python312\Lib\site-packages\peft\tuner.py", false),
            (r"C:\project\lib\train.py", false),
            (r"C:\project\torch\train.py", false),
        ];
        for (file, expected) in of_windows {
            check(file, 9, expected);
        }
    }

    #[test]
    fn code_that_was_generated_is_told_by_its_folder_or_its_name() {
        let check = |file: &str, expected| assert_eq!(is_generated(file), expected, "{file}");
        let name = "c7dkyl7yo4tpxxylxgglj5oolpzbldnxmirpfnhuvvl3wwzjaice.py";
        check(&format!("/cache/7d/{name}"), true);
        check(&format!(r"C:\cache\7d\{name}"), true);
        check("/tmp/torchinductor_me/ab/cab.py", true);
        check("<eval_with_key>.12", true);
        check(&format!("/cache/ab/{name}"), false);
        check(name, false);
        check(&format!("7d/{}", name.to_uppercase()), false);
        check("/srv/al/call.py", false);
        check("/cache/7d/c7d.py", false);
    }

    #[test]
    fn packages_are_told_from_the_program() {
        assert!(is_installed(
            "/v/lib/python3.12/site-packages/transformers/trainer.py"
        ));
        assert!(is_installed(
            "C:\\v\\site-packages\\transformers\\trainer.py"
        ));
        assert!(is_installed(
            "/usr/lib/python3/dist-packages/apex/optimizers/lamb.py"
        ));
        assert!(!is_installed("/home/me/packages/train.py"));
    }

    #[test]
    fn an_operation_is_called_by_its_name() {
        let check = |function: &str, kind, name| {
            assert_eq!((native(function), function_name(function)), (kind, name));
        };
        check(
            "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)",
            Native::Operation,
            "mm",
        );
        check(
            "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)",
            Native::Operation,
            "MmBackward0",
        );
        check(
            "torch::autograd::generated::details::linear_backward(at::Tensor const&)",
            Native::Other,
            "torch::autograd::generated::details::linear_backward",
        );
        check(
            "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)",
            Native::Operation,
            "AccumulateGrad",
        );
        check(
            "torch::autograd::utils::clone_obey_contract(at::Tensor const&, at::Tensor const&)",
            Native::Machinery,
            "torch::autograd::utils::clone_obey_contract",
        );
        check(
            "at::cuda::getCUDABlasLtWorkspace()",
            Native::Operation,
            "getCUDABlasLtWorkspace",
        );
        check(
            "at::native::(anonymous namespace)::addmm_out_cuda_impl(at::Tensor&)",
            Native::Other,
            "at::native::(anonymous namespace)::addmm_out_cuda_impl",
        );
        check(
            "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**)",
            Native::Machinery,
            "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc",
        );
        check(
            "at::_ops::empty_strided::redispatch(c10::DispatchKeySet)",
            Native::Machinery,
            "at::_ops::empty_strided::redispatch",
        );
        check("forward", Native::Other, "forward");
    }
}
