//! Events.

use super::runtime;
use crate::api::event as cu;
use std::ffi::c_uint;

runtime! {
    /// Makes an event.
    fn [cudaEventCreate](event: *mut usize) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuEventCreate(event, 0) }.outcome()
    }

    /// Makes an event.
    fn [cudaEventCreateWithFlags](event: *mut usize, flags: c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuEventCreate(event, flags) }.outcome()
    }

    /// Ends an event.
    fn [cudaEventDestroy](event: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuEventDestroy_v2(event) }.outcome()
    }

    /// Records an event on a stream.
    fn [cudaEventRecord, cudaEventRecord_ptsz](event: usize, stream: usize) {
        // SAFETY: handles are looked up.
        unsafe { cu::cuEventRecord(event, stream) }.outcome()
    }

    /// Records an event on a stream.
    fn [cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz](event: usize, stream: usize, flags: c_uint) {
        // SAFETY: handles are looked up.
        unsafe { cu::cuEventRecordWithFlags(event, stream, flags) }.outcome()
    }

    /// Whether the work before an event has ended.
    fn [cudaEventQuery](event: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuEventQuery(event) }.outcome()
    }

    /// Waits for the work before an event.
    fn [cudaEventSynchronize](event: usize) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuEventSynchronize(event) }.outcome()
    }

    /// Milliseconds between two events, on the host.
    fn [cudaEventElapsedTime, cudaEventElapsedTime_v2](milliseconds: *mut f32, start: usize, end: usize) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuEventElapsedTime_v2(milliseconds, start, end) }.outcome()
    }
}
