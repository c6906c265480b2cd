//! Functions of C++, C and Fortran, as debug information names them.

use super::known::is_word;

/// Namespaces of PyTorch, of the standard library and of CUDA's libraries.
const NAMESPACES: [&str; 16] = [
    "at",
    "c10",
    "c10d",
    "caffe2",
    "cub",
    "cuda",
    "cutlass",
    "functorch",
    "gloo",
    "nvfuser",
    "pybind11",
    "std",
    "thrust",
    "torch",
    "unwind",
    "__gnu_cxx",
];

/// Words of C++ itself, what compilers add to names, and types without a namespace.
const WORDS: &str = "
    CUstream_st THPFunction THPVariable _object anonymous_namespace auto bool char clone cold
    const constexpr constprop cxx11 decltype double enable_if float int isra lambda llvm localalias
    long lto_priv mutable noexcept operator part short signed size_t struct true false unsigned
    void volatile _typeobject _ts _frame nullptr new delete";

/// Functions of Python's interpreter, of threads and of program starts.
const FUNCTIONS: &str = "
    BaseException_dealloc THPFunction_apply THPVariable_clear THPVariable_dealloc
    THPVariable_set_data THPVariable_set_grad THPVariable_subclass_clear
    THPVariable_subclass_dealloc __clone __clone3 __libc_init_first __libc_start_call_main
    __libc_start_main __libc_start_main_impl _start binary_op binary_op1 builtin_exec cell_dealloc
    cfunction_call cfunction_vectorcall_FASTCALL clone dict_dealloc do_call_core do_richcompare
    dynamo__custom_eval_frame execute_native_thread_routine frame_dealloc list_dealloc main
    meth_dealloc method_vectorcall method_vectorcall_NOARGS method_vectorcall_VARARGS_KEYWORDS
    odict_dealloc pthread_condattr_setpshared pymain_main pymain_run_file pymain_run_file_obj
    pymain_run_module pymain_run_python pyrun_file pythread_wrapper run_eval_code_obj run_mod
    slot_nb_add slot_nb_and slot_nb_invert slot_nb_matrix_multiply slot_nb_multiply
    slot_nb_negative slot_nb_power_binary slot_nb_subtract slot_nb_true_divide slot_sq_contains
    slot_tp_call slot_tp_richcompare start_thread structseq_dealloc subtype_dealloc tb_dealloc
    ternary_op thread_run tupledealloc type_call vectorcall_maybe vectorcall_method
    PyCFunction_Call PyCMethod_New PyDescr_IsData PyDict_Update PyEval_EvalCode PyMethod_New
    PyNumber_Add PyNumber_And PyNumber_MatrixMultiply PyNumber_Multiply PyNumber_TrueDivide
    PyObject_Call PyObject_CallMethod PyObject_CallObject PyObject_GenericSetAttr
    PyObject_RichCompare PyObject_SetAttr PyObject_Vectorcall PyRun_AnyFileExFlags
    PyRun_SimpleFileExFlags PyRun_StringFlags PyType_FromModuleAndSpec PyType_GetFlags
    PyType_GetModule PyType_GetModuleState PyVectorcall_Call Py_BytesMain Py_RunMain
    _PyErr_ChainStackItem _PyEval_EvalFrame _PyEval_EvalFrameDefault _PyEval_Vector _PyFrame_Clear
    _PyFrame_ClearExceptCode _PyFunction_Vectorcall _PyObject_Call _PyObject_CallFunctionVa
    _PyObject_Call_Prepend _PyObject_FastCallDictTstate _PyObject_GenericSetAttrWithDict
    _PyObject_MakeTpCall _PyObject_VectorcallTstate _PyRun_AnyFileObject _PyRun_SimpleFileObject
    _PyTuple_Resize _PyVectorcall_Call _Py_Dealloc";

/// PyTorch cuts longer names, so a longer one in a file was made up.
const MAX_CHARS: usize = 4096;

fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == word)
}

/// Whether a function may be shown. Every name in it, also of types, must be in a known namespace
/// or be known itself.
pub(super) fn is_known(name: &str) -> bool {
    if name == "<unwind unsupported>" || name == "??" {
        return true;
    }
    let name = name.replace("(anonymous namespace)", "anonymous_namespace");
    let between = |c: char| " (),<>*&[]{}#.=!+-|^".contains(c);
    let of_name = |c: char| c.is_ascii_alphanumeric() || "_:~".contains(c);
    let plain = name.chars().all(|c| between(c) || of_name(c));
    if !plain || name.is_empty() || name.len() > MAX_CHARS {
        return false;
    }
    let mut start = 0;
    name.split(between).all(|word| {
        // What stands between words is one byte.
        let before = name[..start].chars().next_back();
        start += word.len() + 1;
        match word.strip_prefix("::") {
            // After a bracket, `::` and what follows belong to the name before it.
            Some(rest) if before.is_some_and(|c| ")>]}".contains(c)) => {
                rest.split("::").all(is_part)
            }
            rooted => word.is_empty() || is_name(rooted.unwrap_or(word)),
        }
    })
}

fn is_name(name: &str) -> bool {
    match name.split_once("::") {
        Some((space, rest)) => NAMESPACES.contains(&space) && rest.split("::").all(is_part),
        None => is_alone(name),
    }
}

fn is_part(part: &str) -> bool {
    let part = part.strip_prefix('~').unwrap_or(part);
    part.is_empty() || is_word(part)
}

/// A word without a namespace: of the language, a number, or a function of the interpreter.
fn is_alone(word: &str) -> bool {
    let digits = word.trim_end_matches(['u', 'l', 'U', 'L']);
    let number = digits.len() <= 20 && digits.chars().all(|c| c.is_ascii_digit());
    number || is_in(WORDS, word) || is_in(FUNCTIONS, word)
}
