//! CPython by its C API: initialized and exercised while it waits, and initialized again for the job.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering;

use crate::wire::Job;
use crate::{Object, RTLD_DEFAULT, WRITTEN_SMALL, aside, dlsym, pointers, quiet, start_anew};

/// The structure `PyStatus`.
#[repr(C)]
struct Status {
    kind: c_int,
    function: *const c_char,
    message: *const c_char,
    code: c_int,
}

/// The functions of CPython's C API that are used; the program exports them.
/// <https://docs.python.org/3/c-api/init_config.html>
pub struct Python {
    init_config: unsafe extern "C" fn(*mut c_void),
    set_argv: unsafe extern "C" fn(*mut c_void, isize, *const *const c_char) -> Status,
    clear_config: unsafe extern "C" fn(*mut c_void),
    initialize: unsafe extern "C" fn(*mut c_void) -> Status,
    run_main: unsafe extern "C" fn() -> c_int,
    sys_get: unsafe extern "C" fn(*const c_char) -> Object,
    sys_set: unsafe extern "C" fn(*const c_char, Object) -> c_int,
    dict_new: unsafe extern "C" fn() -> Object,
    dict_get: unsafe extern "C" fn(Object, *const c_char) -> Object,
    dict_set: unsafe extern "C" fn(Object, *const c_char, Object) -> c_int,
    builtins: unsafe extern "C" fn() -> Object,
    run: unsafe extern "C" fn(*const c_char, c_int, Object, Object, *mut c_void) -> Object,
    bytes: unsafe extern "C" fn(*const c_char, isize) -> Object,
    list_new: unsafe extern "C" fn(isize) -> Object,
    list_append: unsafe extern "C" fn(Object, Object) -> c_int,
    call: unsafe extern "C" fn(Object, ...) -> Object,
    incref: unsafe extern "C" fn(Object),
    decref: unsafe extern "C" fn(Object),
    clear_error: unsafe extern "C" fn(),
}

/// Space for a `PyConfig`; larger than that of any version, which is some 400 bytes.
#[repr(C, align(16))]
struct Config([u8; 8192]);

/// Settings that a second initialization takes over instead of computing them again.
const KEPT: [&CStr; 9] = [
    c"path",
    c"executable",
    c"_base_executable",
    c"prefix",
    c"exec_prefix",
    c"base_prefix",
    c"base_exec_prefix",
    c"platlibdir",
    c"_stdlib_dir",
];

const FILE_INPUT: c_int = 257;

impl Python {
    /// # Safety
    /// If the program has these functions, it must be CPython.
    pub unsafe fn find() -> Option<Self> {
        macro_rules! f {
            ($name:literal) => {{
                // SAFETY: the name is a C string.
                let found = unsafe { dlsym(RTLD_DEFAULT, $name.as_ptr()) };
                if found.is_null() {
                    return None;
                }
                // The field has the function's type.
                #[allow(clippy::missing_transmute_annotations)]
                // SAFETY: the functions have had these types since CPython 3.8.
                let typed = unsafe { core::mem::transmute(found) };
                typed
            }};
        }
        Some(Self {
            init_config: f!(c"PyConfig_InitPythonConfig"),
            set_argv: f!(c"PyConfig_SetBytesArgv"),
            clear_config: f!(c"PyConfig_Clear"),
            initialize: f!(c"Py_InitializeFromConfig"),
            run_main: f!(c"Py_RunMain"),
            sys_get: f!(c"PySys_GetObject"),
            sys_set: f!(c"PySys_SetObject"),
            dict_new: f!(c"PyDict_New"),
            dict_get: f!(c"PyDict_GetItemString"),
            dict_set: f!(c"PyDict_SetItemString"),
            builtins: f!(c"PyEval_GetBuiltins"),
            run: f!(c"PyRun_StringFlags"),
            bytes: f!(c"PyBytes_FromStringAndSize"),
            list_new: f!(c"PyList_New"),
            list_append: f!(c"PyList_Append"),
            call: f!(c"PyObject_CallFunctionObjArgs"),
            incref: f!(c"Py_IncRef"),
            decref: f!(c"Py_DecRef"),
            clear_error: f!(c"PyErr_Clear"),
        })
    }

    /// Initializes the interpreter as its own `main` would for these arguments. False on failure.
    ///
    /// # Safety
    /// `argv` must have `argc` strings.
    unsafe fn start(&self, argc: usize, argv: *const *const c_char) -> bool {
        let mut config = Config([0; 8192]);
        let config = (&raw mut config).cast();
        // SAFETY: the config is larger than the interpreter's; it is cleared once.
        unsafe {
            (self.init_config)(config);
            let mut status = (self.set_argv)(config, argc.cast_signed(), argv);
            if status.kind == 0 {
                status = (self.initialize)(config);
            }
            (self.clear_config)(config);
            status.kind == 0
        }
    }

    /// Initializes it again, for other arguments. False on failure.
    ///
    /// # Safety
    /// Must be called after [`Self::start`].
    unsafe fn start_again(&self, argc: usize, argv: *const *const c_char) -> bool {
        // SAFETY: the interpreter is running; the references are held while it does not own them.
        unsafe {
            let mut kept = [null_mut(); KEPT.len()];
            for (object, name) in kept.iter_mut().zip(KEPT) {
                *object = (self.sys_get)(name.as_ptr());
                if !object.is_null() {
                    (self.incref)(*object);
                }
            }
            WRITTEN_SMALL.store(true, Ordering::Relaxed);
            let started = self.start(argc, argv);
            WRITTEN_SMALL.store(false, Ordering::Relaxed);
            for (object, name) in kept.into_iter().zip(KEPT) {
                if !object.is_null() {
                    (self.sys_set)(name.as_ptr(), object);
                    (self.decref)(object);
                }
            }
            (self.clear_error)();
            started
        }
    }

    /// Initializes the interpreter and exercises it. Returns the globals of `primer.py`, with the function to
    /// call when the job arrives; `None` on failure.
    ///
    /// # Safety
    /// Must be called once; `argv` must be as in [`crate::instead_of_main`].
    pub unsafe fn prepare(&self, argv: *mut *mut c_char) -> Option<Object> {
        // SAFETY: the interpreter is initialized before it is used, by this one thread.
        unsafe {
            let program = (*argv).cast_const();
            let first = [program, c"-c".as_ptr(), c"pass".as_ptr(), null()];
            if !self.start(3, first.as_ptr()) {
                return None;
            }
            let names = CStr::from_ptr(*argv.add(2));
            let modules = (self.bytes)(names.as_ptr(), names.to_bytes().len().cast_signed());
            let own = (self.dict_new)();
            (self.dict_set)(own, c"__builtins__".as_ptr(), (self.builtins)());
            (self.dict_set)(own, c"modules".as_ptr(), modules);
            (self.decref)(modules);
            let ran = (self.run)(PRACTICE.as_ptr(), FILE_INPUT, own, own, null_mut());
            if ran.is_null() {
                return None;
            }
            (self.decref)(ran);
            // A cold start would show the user any output of the initialization and of the imports.
            if !quiet::said_nothing() {
                return None;
            }
            // One trial run: a version that cannot be initialized again fails here, before there is a job.
            if !self.start_again(3, first.as_ptr()) {
                return None;
            }
            let practised = (self.call)((self.dict_get)(own, c"practise".as_ptr()), null_mut::<c_void>());
            if practised.is_null() {
                return None;
            }
            (self.decref)(practised);
            let aside = (self.call)((self.dict_get)(own, c"freeze".as_ptr()), null_mut::<c_void>());
            if aside.is_null() || !aside::set(aside) {
                return None;
            }
            let finish = (self.dict_get)(own, c"finish".as_ptr());
            (!finish.is_null()).then_some(own)
        }
    }

    /// Adopts arguments and environment, and runs the program as the interpreter's own `main` does.
    ///
    /// # Safety
    /// Must be called after [`Self::prepare`], with its result.
    pub unsafe fn become_program(&self, own: Object, job: &Job<'static>) -> c_int {
        // SAFETY: the interpreter is running, and this is its only thread.
        unsafe {
            let argv = pointers(job.argv);
            let list = (self.list_new)(0);
            for variable in job.env {
                let text = (self.bytes)(variable.as_ptr(), variable.to_bytes().len().cast_signed());
                (self.list_append)(list, text);
                (self.decref)(text);
            }
            let finish = (self.dict_get)(own, c"finish".as_ptr());
            let done = (self.call)(finish, list, null_mut::<c_void>());
            (self.decref)(list);
            if done.is_null() || !self.start_again(job.argv.len(), argv) {
                start_anew(job);
            }
            (self.decref)(done);
            (self.decref)(own);
            (self.run_main)()
        }
    }
}

/// Script that exercises the interpreter, and prepares it when the job arrives.
const PRACTICE: &CStr = {
    const TEXT: &[u8] = concat!(include_str!("primer.py"), include_str!("aside.py"), "\0").as_bytes();
    match CStr::from_bytes_with_nul(TEXT) {
        Ok(text) => text,
        Err(_) => panic!("primer.py or aside.py holds a NUL"),
    }
};
