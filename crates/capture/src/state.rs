//! What is known of the program.

use crate::image::{Image, Known};
use crate::inside::{Inside, quietly};
use crate::memory::Memory;
use crate::real;
use crate::record::Record;
use crate::settings::{Counter, settings};
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A kernel that the program has asked for.
#[derive(Clone)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its module.
    pub image: Arc<Image>,
}

/// Everything that was seen.
pub struct State {
    /// Memory.
    pub memory: Memory,
    /// Images of modules and libraries, by handle.
    pub images: HashMap<usize, Arc<Image>>,
    /// Kernels, by handle.
    pub kernels: HashMap<usize, Kernel>,
    /// PTX that was linked, by the link's handle.
    pub links: HashMap<usize, Vec<String>>,
    /// Machine code whose PTX is known.
    pub known: Known,
    /// Launches so far.
    pub counter: Counter,
    /// What is told.
    pub record: Record,
}

/// The state of this process.
pub fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(|| Mutex::new(State::new()));
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl State {
    fn new() -> State {
        let folder = settings().map(|settings| settings.folder.clone()).unwrap_or_default();
        State {
            memory: Memory::default(),
            images: HashMap::new(),
            kernels: HashMap::new(),
            links: HashMap::new(),
            known: Known::default(),
            counter: Counter::default(),
            record: Record::new(folder),
        }
    }

    /// A kernel by its handle; the driver is asked for those that came another way.
    pub fn kernel(&mut self, handle: usize) -> Option<Kernel> {
        if let Some(kernel) = self.kernels.get(&handle) {
            return Some(kernel.clone());
        }
        let (mut name, mut module) = (std::ptr::null(), 0);
        // SAFETY: places for the results; a wrong handle is the program's.
        let (named, found) = unsafe {
            (real::function_name(&mut name, handle), real::function_module(&mut module, handle))
        };
        if (named, found) != (Some(real::SUCCESS), Some(real::SUCCESS)) || name.is_null() {
            return None;
        }
        // SAFETY: the driver gives text that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let kernel = Kernel { name, image: self.images.get(&module)?.clone() };
        self.kernels.insert(handle, kernel.clone());
        Some(kernel)
    }
}

/// Calls the driver for the program, and takes note if that succeeded.
pub fn noted(call: impl FnOnce() -> c_int, note: impl FnOnce(&mut State)) -> c_int {
    let Some(_inside) = Inside::enter() else { return call() };
    let result = call();
    if result == real::SUCCESS {
        quietly(|| note(&mut state()));
    }
    result
}

/// Takes note of something that ends with a call, and calls the driver for the program. Before, because another thread
/// may be given the same address or handle as soon as the driver has it back.
pub fn noted_before(call: impl FnOnce() -> c_int, note: impl FnOnce(&mut State)) -> c_int {
    let Some(_inside) = Inside::enter() else { return call() };
    quietly(|| note(&mut state()));
    call()
}
