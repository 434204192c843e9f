//! The configuration of a launch, as `cuLaunchKernelEx` takes it.

use std::ffi::c_uint;

/// The configuration of a launch, as the header has it.
#[repr(C)]
pub struct LaunchConfig {
    /// CTAs.
    pub grid: [c_uint; 3],
    /// Threads.
    pub block: [c_uint; 3],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream's handle.
    pub stream: usize,
    /// Attributes, or null.
    pub attributes: *const LaunchAttribute,
    /// How many there are.
    pub count: c_uint,
}

/// An attribute of a launch, as the header has it.
#[repr(C)]
pub struct LaunchAttribute {
    /// Which one.
    pub id: c_uint,
    /// Nothing.
    pub pad: [u8; 4],
    /// Its value.
    pub value: [u32; 16],
}

/// Dimensions of clusters among the attributes.
const CLUSTER: c_uint = 4;

impl LaunchConfig {
    /// A launch without attributes.
    pub fn plain(
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: usize,
    ) -> LaunchConfig {
        let attributes = std::ptr::null();
        LaunchConfig { grid, block, shared_bytes, stream, attributes, count: 0 }
    }

    /// The cluster that the attributes ask for.
    ///
    /// # Safety
    /// There are `count` attributes.
    pub unsafe fn cluster(&self) -> Option<[u32; 3]> {
        if self.attributes.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for their number.
        let attributes =
            unsafe { std::slice::from_raw_parts(self.attributes, self.count as usize) };
        let cluster = attributes.iter().find(|attribute| attribute.id == CLUSTER)?;
        Some([cluster.value[0], cluster.value[1], cluster.value[2]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_an_attribute() {
        let mut config = LaunchConfig::plain([8, 1, 1], [128, 1, 1], 0, 0);
        // SAFETY: there are none, and then two.
        unsafe { assert_eq!(config.cluster(), None) };
        let attribute = |id, x| LaunchAttribute { id, pad: [0; 4], value: [x; 16] };
        let attributes = [attribute(6, 1), attribute(CLUSTER, 2)];
        (config.attributes, config.count) = (attributes.as_ptr(), 2);
        // SAFETY: as above.
        unsafe { assert_eq!(config.cluster(), Some([2; 3])) };
        assert_eq!(size_of::<LaunchAttribute>(), 72);
    }
}
