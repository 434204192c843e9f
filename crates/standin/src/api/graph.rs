//! Graphs: what was captured, done again when launched.

use crate::driver::driver;
use crate::guard::{driver, give};
use crate::result::CudaResult;
use std::ffi::{c_char, c_uint, c_ulonglong, c_void};

driver! {
    /// Makes a graph ready to be launched.
    fn [cuGraphInstantiateWithFlags, cuGraphInstantiate](ready: *mut usize, graph: usize, flags: c_ulonglong) {
        let _ = flags;
        let mut state = driver()?.state();
        let jobs = state.graphs.get(graph)?.clone();
        let made = state.graphs.add(jobs);
        // SAFETY: the program's pointer.
        unsafe { give(ready, made) }
    }

    /// Makes a graph ready to be launched.
    fn [cuGraphInstantiate_v2](
        ready: *mut usize, graph: usize, node: *mut usize, log: *mut c_char, bytes: usize,
    ) {
        let _ = (node, log, bytes);
        // SAFETY: the same contract.
        match unsafe { cuGraphInstantiateWithFlags(ready, graph, 0) } {
            CudaResult::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    /// Queues everything in a graph.
    fn [cuGraphLaunch, cuGraphLaunch_ptsz](ready: usize, stream: usize) {
        let driver = driver()?;
        let jobs = driver.state().graphs.get(ready)?.clone();
        jobs.iter().try_for_each(|job| driver.submit(stream, job.clone()).map(|_| ()))
    }

    /// There is nowhere to upload to.
    fn [cuGraphUpload, cuGraphUpload_ptsz](ready: usize, stream: usize) {
        let _ = stream;
        driver()?.state().graphs.get(ready).map(|_| ())
    }

    /// Ends a graph that was ready.
    fn [cuGraphExecDestroy](ready: usize) {
        driver()?.state().graphs.remove(ready).map(|_| ())
    }

    /// Ends a graph.
    fn [cuGraphDestroy](graph: usize) {
        driver()?.state().graphs.remove(graph).map(|_| ())
    }

    /// How many nodes a graph has; which they are is not told.
    fn [cuGraphGetNodes](graph: usize, nodes: *mut *mut c_void, count: *mut usize) {
        if !nodes.is_null() {
            return Err(CudaResult::NOT_SUPPORTED);
        }
        let jobs = driver()?.state().graphs.get(graph)?.len();
        // SAFETY: the program's pointer.
        unsafe { give(count, jobs) }
    }

    /// A graph without nodes, to which nothing can be added here.
    fn [cuGraphCreate](graph: *mut usize, flags: c_uint) {
        let _ = (graph, flags);
        Err(CudaResult::NOT_SUPPORTED)
    }
}
