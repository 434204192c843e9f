//! Contexts: the device's own, which is shared, and others, which are the same to the simulator.

use crate::driver::driver;
use crate::guard::{driver, give, give_if_wanted};
use crate::result::{CudaResult, Outcome};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Mutex;

thread_local! {
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Changes the stack of this thread, which is gone when the thread ends.
fn stack<T>(change: impl FnOnce(&mut Vec<usize>) -> T) -> Outcome<T> {
    CURRENT
        .try_with(|current| change(&mut current.borrow_mut()))
        .map_err(|_| CudaResult::DEINITIALIZED)
}

/// The context of this thread, 0 if there is none.
fn current() -> Outcome<usize> {
    stack(|stack| stack.last().copied().unwrap_or(0))
}

/// That this thread has a context.
pub fn ensure_current() -> Outcome {
    driver()?;
    if current()? == 0 { Err(CudaResult::INVALID_CONTEXT) } else { Ok(()) }
}

/// Limits that programs set and ask for; the simulator has none of them.
static LIMITS: Mutex<Option<HashMap<c_uint, usize>>> = Mutex::new(None);

/// What limits are without being set: stack, `printf` buffer, heap.
fn usual_limit(limit: c_uint) -> Option<usize> {
    match limit {
        0 => Some(1024),
        1 => Some(1 << 20),
        2 => Some(8 << 20),
        3..=6 => Some(0),
        _ => None,
    }
}

driver! {
    /// Takes the device's context.
    fn [cuDevicePrimaryCtxRetain](context: *mut usize, device: c_int) {
        if device != 0 {
            return Err(CudaResult::INVALID_DEVICE);
        }
        let mut state = driver()?.state();
        state.primary.1 += 1;
        // SAFETY: the program's pointer.
        unsafe { give(context, state.primary.0) }
    }

    /// Gives the device's context back. It stays: there is nothing that it costs.
    fn [cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease](device: c_int) {
        let mut state = driver()?.state();
        if device != 0 || state.primary.1 == 0 {
            return Err(CudaResult::INVALID_CONTEXT);
        }
        state.primary.1 -= 1;
        Ok(())
    }

    /// Starts anew; memory of the program stays where it is.
    fn [cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset](device: c_int) {
        if device != 0 {
            return Err(CudaResult::INVALID_DEVICE);
        }
        driver()?.synchronize()
    }

    /// Flags mean nothing here.
    fn [cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags](device: c_int, flags: c_uint) {
        let _ = flags;
        if device == 0 { driver().map(|_| ()) } else { Err(CudaResult::INVALID_DEVICE) }
    }

    /// Whether the device's context is retained.
    fn [cuDevicePrimaryCtxGetState](device: c_int, flags: *mut c_uint, active: *mut c_int) {
        if device != 0 {
            return Err(CudaResult::INVALID_DEVICE);
        }
        let retained = driver()?.state().primary.1 > 0;
        // SAFETY: the program's pointers.
        unsafe {
            give_if_wanted(flags, 0);
            give(active, c_int::from(retained))
        }
    }

    /// A context of its own.
    fn [cuCtxCreate_v2, cuCtxCreate](context: *mut usize, flags: c_uint, device: c_int) {
        let _ = flags;
        if device != 0 {
            return Err(CudaResult::INVALID_DEVICE);
        }
        let made = driver()?.state().contexts.add(());
        stack(|stack| stack.push(made))?;
        // SAFETY: the program's pointer.
        unsafe { give(context, made) }
    }

    /// A context of its own, with parameters that must be absent.
    fn [cuCtxCreate_v4](context: *mut usize, parameters: *mut c_void, flags: c_uint, device: c_int) {
        if !parameters.is_null() {
            return Err(CudaResult::NOT_SUPPORTED);
        }
        // SAFETY: the same contract.
        match unsafe { cuCtxCreate_v2(context, flags, device) } {
            CudaResult::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    /// Destroys a context that the program has made.
    fn [cuCtxDestroy_v2, cuCtxDestroy](context: usize) {
        let driver = driver()?;
        driver.synchronize()?;
        let mut state = driver.state();
        if context == state.primary.0 {
            return Err(CudaResult::INVALID_CONTEXT);
        }
        state.contexts.remove(context).map_err(|_| CudaResult::INVALID_CONTEXT)?;
        stack(|stack| stack.retain(|other| *other != context))
    }

    /// Makes a context current on this thread; none leaves the thread without one.
    fn [cuCtxSetCurrent](context: usize) {
        if context != 0 {
            driver()?.state().contexts.get(context).map_err(|_| CudaResult::INVALID_CONTEXT)?;
        }
        stack(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        })
    }

    /// The context of this thread.
    fn [cuCtxGetCurrent](context: *mut usize) {
        driver()?;
        // SAFETY: the program's pointer.
        unsafe { give(context, current()?) }
    }

    /// Puts a context on top of this thread's.
    fn [cuCtxPushCurrent_v2, cuCtxPushCurrent](context: usize) {
        driver()?.state().contexts.get(context).map_err(|_| CudaResult::INVALID_CONTEXT)?;
        stack(|stack| stack.push(context))
    }

    /// Takes the top context off.
    fn [cuCtxPopCurrent_v2, cuCtxPopCurrent](context: *mut usize) {
        driver()?;
        let top = stack(|stack| stack.pop())?.ok_or(CudaResult::INVALID_CONTEXT)?;
        // SAFETY: the program's pointer.
        unsafe { give_if_wanted(context, top) };
        Ok(())
    }

    /// The device of this thread's context.
    fn [cuCtxGetDevice](device: *mut c_int) {
        ensure_current()?;
        // SAFETY: the program's pointer.
        unsafe { give(device, 0) }
    }

    /// The device of a context, or of this thread's where none is named.
    fn [cuCtxGetDevice_v2](device: *mut c_int, context: usize) {
        match context {
            0 => ensure_current()?,
            named => {
                driver()?.state().contexts.get(named).map_err(|_| CudaResult::INVALID_CONTEXT)?;
            }
        }
        // SAFETY: the program's pointer.
        unsafe { give(device, 0) }
    }

    /// Waits for everything.
    fn [cuCtxSynchronize]() {
        ensure_current()?;
        driver()?.synchronize()
    }

    /// Waits for everything.
    fn [cuCtxSynchronize_v2](context: usize) {
        let _ = context;
        driver()?.synchronize()
    }

    /// Flags mean nothing here.
    fn [cuCtxSetFlags](flags: c_uint) {
        let _ = flags;
        ensure_current()
    }

    /// Flags mean nothing here.
    fn [cuCtxGetFlags](flags: *mut c_uint) {
        ensure_current()?;
        // SAFETY: the program's pointer.
        unsafe { give(flags, 0) }
    }

    /// The version of the API that contexts have.
    fn [cuCtxGetApiVersion](context: usize, version: *mut c_uint) {
        let _ = context;
        driver()?;
        // SAFETY: the program's pointer.
        unsafe { give(version, 3020) }
    }

    /// Remembers a limit.
    fn [cuCtxSetLimit](limit: c_uint, value: usize) {
        ensure_current()?;
        usual_limit(limit).ok_or(CudaResult::NOT_SUPPORTED)?;
        let mut limits = LIMITS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        limits.get_or_insert_default().insert(limit, value);
        Ok(())
    }

    /// A limit.
    fn [cuCtxGetLimit](value: *mut usize, limit: c_uint) {
        ensure_current()?;
        let usual = usual_limit(limit).ok_or(CudaResult::NOT_SUPPORTED)?;
        let limits = LIMITS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let set = limits.as_ref().and_then(|limits| limits.get(&limit)).copied();
        // SAFETY: the program's pointer.
        unsafe { give(value, set.unwrap_or(usual)) }
    }

    /// Caches are not simulated.
    fn [cuCtxSetCacheConfig](config: c_uint) {
        let _ = config;
        ensure_current()
    }

    /// Caches are not simulated.
    fn [cuCtxGetCacheConfig](config: *mut c_uint) {
        ensure_current()?;
        // SAFETY: the program's pointer.
        unsafe { give(config, 0) }
    }

    /// Priorities mean nothing here, but there are some.
    fn [cuCtxGetStreamPriorityRange](least: *mut c_int, greatest: *mut c_int) {
        ensure_current()?;
        // SAFETY: the program's pointers.
        unsafe {
            give_if_wanted(least, 0);
            give_if_wanted(greatest, -5);
        }
        Ok(())
    }
}
