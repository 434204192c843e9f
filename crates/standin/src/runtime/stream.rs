//! Streams and their capture.

use super::runtime;
use crate::api::stream as cu;
use crate::result::CudaResult;
use std::ffi::{c_int, c_uint, c_void};

/// A function that a stream calls with itself and a result.
type Callback = unsafe extern "C" fn(usize, u32, *mut c_void);

runtime! {
    /// Makes a stream.
    fn [cudaStreamCreate](stream: *mut usize) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamCreate(stream, 0) }.outcome()
    }

    /// Makes a stream.
    fn [cudaStreamCreateWithFlags](stream: *mut usize, flags: c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamCreate(stream, flags) }.outcome()
    }

    /// Makes a stream; priorities mean nothing here.
    fn [cudaStreamCreateWithPriority](stream: *mut usize, flags: c_uint, priority: c_int) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamCreateWithPriority(stream, flags, priority) }.outcome()
    }

    /// Ends a stream; its work goes on.
    fn [cudaStreamDestroy](stream: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuStreamDestroy_v2(stream) }.outcome()
    }

    /// Waits for a stream's work.
    fn [cudaStreamSynchronize, cudaStreamSynchronize_ptsz](stream: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuStreamSynchronize(stream) }.outcome()
    }

    /// Whether a stream's work has ended.
    fn [cudaStreamQuery, cudaStreamQuery_ptsz](stream: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuStreamQuery(stream) }.outcome()
    }

    /// Lets a stream wait for an event.
    fn [cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz](stream: usize, event: usize, flags: c_uint) {
        // SAFETY: handles are looked up.
        unsafe { cu::cuStreamWaitEvent(stream, event, flags) }.outcome()
    }

    /// Flags of a stream.
    fn [cudaStreamGetFlags, cudaStreamGetFlags_ptsz](stream: usize, flags: *mut c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamGetFlags(stream, flags) }.outcome()
    }

    /// Priority of a stream.
    fn [cudaStreamGetPriority, cudaStreamGetPriority_ptsz](stream: usize, priority: *mut c_int) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamGetPriority(stream, priority) }.outcome()
    }

    /// A number of a stream that no other has.
    fn [cudaStreamGetId, cudaStreamGetId_ptsz](stream: usize, id: *mut u64) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamGetId(stream, id) }.outcome()
    }

    /// Calls the program when the work before has ended.
    fn [cudaStreamAddCallback, cudaStreamAddCallback_ptsz](
        stream: usize, callback: Option<Callback>, data: *mut c_void, flags: c_uint,
    ) {
        // SAFETY: the program's function and its argument.
        unsafe { cu::cuStreamAddCallback(stream, callback, data, flags) }.outcome()
    }

    /// Whether a stream is captured.
    fn [cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz](stream: usize, captured: *mut c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamIsCapturing(stream, captured) }.outcome()
    }

    /// Whether a stream is captured, and by which capture. Releases differ in what follows, which nobody may ask for.
    fn [
        cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo_v2,
        cudaStreamGetCaptureInfo_v2_ptsz
    ](stream: usize, captured: *mut c_uint, id: *mut u64, graph: *mut usize) {
        if !graph.is_null() {
            return Err(CudaResult::NOT_SUPPORTED);
        }
        let (nodes, count) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the program's pointers.
        unsafe { cu::cuStreamGetCaptureInfo_v2(stream, captured, id, graph, nodes, count) }.outcome()
    }

    /// Begins to record a stream's work instead of doing it.
    fn [cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz](stream: usize, mode: c_uint) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuStreamBeginCapture_v2(stream, mode) }.outcome()
    }

    /// Ends a capture: a graph of what was recorded.
    fn [cudaStreamEndCapture, cudaStreamEndCapture_ptsz](stream: usize, graph: *mut usize) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuStreamEndCapture(stream, graph) }.outcome()
    }

    /// Captures do not disturb each other.
    fn [cudaThreadExchangeStreamCaptureMode](mode: *mut c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuThreadExchangeStreamCaptureMode(mode) }.outcome()
    }
}
