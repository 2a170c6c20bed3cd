//! Freezes the objects that a waiting Python had loaded before its job (`gc.freeze`): the collector's pass
//! over them takes half of the time in which a short program ends.
//!
//! The objects are unfrozen when the program imports `gc`, and when the interpreter ends, unless that cannot
//! be noticed, which `aside.py` checks. The check is called from here only if the program uses no tracing,
//! profiling or audit hook, so that the program cannot see the call.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::Object;

const RTLD_DEFAULT: *mut c_void = null_mut();

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn malloc(len: usize) -> *mut c_void;
}

/// Installs hooks for the events that require unfreezing. False where this is not possible.
///
/// # Safety
/// Must be called before the interpreter is initialized; the program must be CPython.
pub unsafe fn watch() -> bool {
    type Hook = unsafe extern "C" fn(*const c_char, Object, *mut c_void) -> c_int;
    // SAFETY: the function has this type since CPython 3.8.
    unsafe {
        let add = dlsym(RTLD_DEFAULT, c"PySys_AddAuditHook".as_ptr());
        if add.is_null() {
            return false;
        }
        let add: unsafe extern "C" fn(Hook, *mut c_void) -> c_int = core::mem::transmute(add);
        add(hear_audit, null_mut()) == 0 && watch_gc()
    }
}

/// An entry of `PyImport_Inittab`, the table of built-in modules.
#[repr(C)]
struct Builtin {
    name: *const c_char,
    init: Option<unsafe extern "C" fn() -> Object>,
}

/// Original initializer of the module `gc`.
static INIT_GC: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// State for unfreezing. Null if nothing is frozen.
static ASIDE: AtomicPtr<Aside> = AtomicPtr::new(null_mut());
/// Whether the program has installed an audit hook.
static AUDITED: AtomicBool = AtomicBool::new(false);

/// Python objects and functions that are needed to unfreeze, from `freeze` in `aside.py`.
struct Aside {
    noticed: Object,
    unfreeze: Object,
    /// The functions `sys.gettrace` and `sys.getprofile`.
    watchers: [Object; 2],
    /// The function `sys.monitoring.get_tool`, or None.
    tools: Object,
    none: Object,
    call: unsafe extern "C" fn(Object, ...) -> Object,
    is_true: unsafe extern "C" fn(Object) -> c_int,
    decref: unsafe extern "C" fn(Object),
    long: unsafe extern "C" fn(c_long) -> Object,
    fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    restore: unsafe extern "C" fn(Object, Object, Object),
    clear_error: unsafe extern "C" fn(),
}

impl Aside {
    /// Whether a call without arguments, or with a small number, returns None. A call from here is not
    /// visible to tracers or profilers.
    unsafe fn gives_none(&self, function: Object, number: Option<c_long>) -> bool {
        // SAFETY: the interpreter is running and holds the function.
        unsafe {
            let argument = number.map_or(null_mut(), |number| (self.long)(number));
            let given = (self.call)(function, argument, null_mut::<c_void>());
            if !argument.is_null() {
                (self.decref)(argument);
            }
            if given.is_null() {
                (self.clear_error)();
                return false;
            }
            (self.decref)(given);
            given == self.none
        }
    }

    /// Unfreezes the objects.
    unsafe fn take_back(&self) {
        // SAFETY: as above.
        unsafe {
            let done = (self.call)(self.unfreeze, null_mut::<c_void>());
            if done.is_null() { (self.clear_error)() } else { (self.decref)(done) }
        }
    }

    /// Releases the references: objects reachable from here would not count as garbage.
    unsafe fn let_go(&self) {
        let [trace, profile] = self.watchers;
        // SAFETY: called once; these are the references that were taken.
        unsafe {
            for held in [self.noticed, self.unfreeze, trace, profile, self.tools] {
                (self.decref)(held);
            }
        }
    }

    /// Called at the end of the interpreter, or of the object that holds the capsule: unfreezes, unless there
    /// is no tracer and nothing would notice.
    unsafe fn end(&self) {
        const TOOLS: c_long = 6;
        // SAFETY: as above; a pending exception is preserved.
        unsafe {
            let mut error = [null_mut(); 3];
            let [kind, value, trace] = &mut error;
            (self.fetch)(kind, value, trace);
            let unwatched = !AUDITED.load(Ordering::Relaxed)
                && self.watchers.iter().all(|watcher| self.gives_none(*watcher, None))
                && (self.tools == self.none || (0..TOOLS).all(|tool| self.gives_none(self.tools, Some(tool))));
            let mut is_noticed = true;
            if unwatched {
                let noticed = (self.call)(self.noticed, null_mut::<c_void>());
                if noticed.is_null() {
                    (self.clear_error)();
                } else {
                    is_noticed = (self.is_true)(noticed) != 0;
                    (self.decref)(noticed);
                }
            }
            if is_noticed {
                self.take_back();
            }
            self.let_go();
            (self.restore)(error[0], error[1], error[2]);
        }
    }
}

/// Destructor of the capsule, called when the interpreter ends.
unsafe extern "C" fn end_of_python(_: Object) {
    // SAFETY: the value was stored completely and is never freed, and the caller holds the interpreter.
    unsafe {
        if let Some(aside) = ASIDE.swap(null_mut(), Ordering::Relaxed).as_ref() {
            aside.end();
        }
    }
}

/// Audit hook: records that the program installs an audit hook of its own.
unsafe extern "C" fn hear_audit(event: *const c_char, _: Object, _: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes a string.
    if unsafe { CStr::from_ptr(event) } == c"sys.addaudithook" {
        AUDITED.store(true, Ordering::Relaxed);
    }
    0
}

/// Replaces the initializer of `gc`. False if the interpreter has no such module.
///
/// # Safety
/// Must be called before the interpreter is initialized, because newer versions copy the table then.
unsafe fn watch_gc() -> bool {
    // SAFETY: the table is the interpreter's own, no other code writes to it, and it ends with an entry
    // without a name.
    unsafe {
        let table = dlsym(RTLD_DEFAULT, c"PyImport_Inittab".as_ptr()).cast::<*mut Builtin>();
        if table.is_null() {
            return false;
        }
        let mut entry = *table;
        while !entry.is_null() && !(*entry).name.is_null() {
            if CStr::from_ptr((*entry).name) == c"gc"
                && let Some(init) = (*entry).init
            {
                INIT_GC.store(init as *mut c_void, Ordering::Relaxed);
                (*entry).init = Some(make_gc);
                return true;
            }
            entry = entry.add(1);
        }
        false
    }
}

/// Initializer of `gc`: unfreezes first, so that the importing code finds nothing frozen.
unsafe extern "C" fn make_gc() -> Object {
    // SAFETY: the functions have these types; the interpreter is importing a module, so it can be called. A
    // sub-interpreter has a collector of its own.
    unsafe {
        type State = unsafe extern "C" fn() -> *mut c_void;
        let states = [c"PyInterpreterState_Get", c"PyInterpreterState_Main"]
            .map(|name| dlsym(RTLD_DEFAULT, name.as_ptr()));
        let mine = states.iter().all(|state| !state.is_null()) && {
            let [this, main]: [State; 2] = states.map(|state| core::mem::transmute::<*mut c_void, State>(state));
            this() == main()
        };
        if mine && let Some(aside) = ASIDE.swap(null_mut(), Ordering::Relaxed).as_ref() {
            aside.take_back();
            aside.let_go();
        }
        let init: unsafe extern "C" fn() -> Object = core::mem::transmute(INIT_GC.load(Ordering::Relaxed));
        init()
    }
}

/// Freezes the existing objects with the tuple returned by `freeze`, if there is one. False on failure.
///
/// # Safety
/// Must be called once, while the interpreter is running.
pub unsafe fn set(given: Object) -> bool {
    // Used within the unsafe block below: the names are C strings, and each function has the type of its
    // field since CPython 3.8.
    macro_rules! f {
        ($name:literal) => {{
            let found = dlsym(RTLD_DEFAULT, $name.as_ptr());
            if found.is_null() {
                return false;
            }
            #[allow(clippy::missing_transmute_annotations)]
            let typed = core::mem::transmute(found);
            typed
        }};
    }
    // SAFETY: the tuple holds seven objects, of which five are kept; the capsule's destructor has the right
    // type.
    unsafe {
        let none = dlsym(RTLD_DEFAULT, c"_Py_NoneStruct".as_ptr());
        if given == none {
            return true;
        }
        let call: unsafe extern "C" fn(Object, ...) -> Object = f!(c"PyObject_CallFunctionObjArgs");
        let incref: unsafe extern "C" fn(Object) = f!(c"Py_IncRef");
        let decref: unsafe extern "C" fn(Object) = f!(c"Py_DecRef");
        let item: unsafe extern "C" fn(Object, isize) -> Object = f!(c"PyTuple_GetItem");
        let capsule: unsafe extern "C" fn(
            *mut c_void,
            *const c_char,
            unsafe extern "C" fn(Object),
        ) -> Object = f!(c"PyCapsule_New");
        let set: unsafe extern "C" fn(Object, *const c_char, Object) -> c_int = f!(c"PyObject_SetAttrString");
        let [noticed, unfreeze, freeze, hook, trace, profile, tools] =
            [0, 1, 2, 3, 4, 5, 6].map(|number| item(given, number));
        let aside = malloc(size_of::<Aside>()).cast::<Aside>();
        if none.is_null() || tools.is_null() || aside.is_null() {
            return false;
        }
        aside.write(Aside {
            noticed,
            unfreeze,
            watchers: [trace, profile],
            tools,
            none,
            call,
            is_true: f!(c"PyObject_IsTrue"),
            decref,
            long: f!(c"PyLong_FromLong"),
            fetch: f!(c"PyErr_Fetch"),
            restore: f!(c"PyErr_Restore"),
            clear_error: f!(c"PyErr_Clear"),
        });
        let end = capsule(aside.cast(), null(), end_of_python);
        if end.is_null() || set(hook, c"end".as_ptr(), end) != 0 {
            return false;
        }
        decref(end);
        let frozen = call(freeze, null_mut::<c_void>());
        if frozen.is_null() {
            return false;
        }
        decref(frozen);
        // Release the tuple, since it also holds the capsule.
        for kept in [noticed, unfreeze, trace, profile, tools] {
            incref(kept);
        }
        decref(given);
        ASIDE.store(aside, Ordering::Relaxed);
        true
    }
}
