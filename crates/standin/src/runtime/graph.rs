//! Graphs of captured work.

use super::runtime;
use crate::api::graph as cu;
use std::ffi::{c_ulonglong, c_void};

runtime! {
    /// Makes a graph ready to be launched.
    fn [cudaGraphInstantiate, cudaGraphInstantiateWithFlags](
        ready: *mut usize, graph: usize, flags: c_ulonglong,
    ) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuGraphInstantiateWithFlags(ready, graph, flags) }.outcome()
    }

    /// Queues everything in a graph.
    fn [cudaGraphLaunch, cudaGraphLaunch_ptsz](ready: usize, stream: usize) {
        // SAFETY: handles are looked up.
        unsafe { cu::cuGraphLaunch(ready, stream) }.outcome()
    }

    /// There is nowhere to upload to.
    fn [cudaGraphUpload, cudaGraphUpload_ptsz](ready: usize, stream: usize) {
        // SAFETY: handles are looked up.
        unsafe { cu::cuGraphUpload(ready, stream) }.outcome()
    }

    /// Ends a graph that was ready.
    fn [cudaGraphExecDestroy](ready: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuGraphExecDestroy(ready) }.outcome()
    }

    /// Ends a graph.
    fn [cudaGraphDestroy](graph: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuGraphDestroy(graph) }.outcome()
    }

    /// How many nodes a graph has; which they are is not told.
    fn [cudaGraphGetNodes](graph: usize, nodes: *mut *mut c_void, count: *mut usize) {
        // SAFETY: the program's pointers.
        unsafe { cu::cuGraphGetNodes(graph, nodes, count) }.outcome()
    }
}
