use crate::driver::{self, Context, DeviceAttribute};
use crate::jit::Modules;
use crate::{CubinCache, DeviceBuffer, Error, Loaded, Stream};
use program::Program;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The oldest CUDA version whose driver has everything used here (tensor maps came with it).
const OLDEST_DRIVER: (u32, u32) = (12, 0);

/// A GPU, by its primary context. Clones share it, and so does everyone who opens it.
#[derive(Clone)]
pub struct Device {
    context: Arc<Context>,
    info: Arc<DeviceInfo>,
    cache: CubinCache,
    modules: Arc<Modules>,
}

/// The devices that were opened: they stay open.
static OPEN: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());

/// Facts about a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Number among the driver's devices.
    pub ordinal: u32,
    /// Product name.
    pub name: String,
    /// Compute capability: `(9, 0)` for Hopper.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Global memory.
    pub memory_bytes: u64,
    /// The most shared memory a CTA can have.
    pub shared_bytes: u32,
    /// L2 cache.
    pub l2_bytes: u32,
    /// The CUDA version the driver supports.
    pub driver: (u32, u32),
}

impl DeviceInfo {
    fn of(ordinal: u32, context: &Context) -> Result<DeviceInfo, Error> {
        use DeviceAttribute::*;
        Ok(DeviceInfo {
            ordinal,
            name: context.name()?,
            compute_capability: (
                context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            sm_count: context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory_bytes: context.memory_bytes()?,
            shared_bytes: context
                .attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            l2_bytes: context.attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            driver: driver::version()?,
        })
    }

    /// Whether code for `target` (`sm_90a`) runs here.
    ///
    /// Plain targets run on their capability and later ones, `f` targets within their family
    /// (same major number), `a` targets on exactly theirs.
    pub fn runs(&self, target: &str) -> bool {
        let Some(number) = target.strip_prefix("sm_") else { return false };
        let digits = number.trim_end_matches(['a', 'f']);
        let Ok(needs) = digits.parse::<u32>() else { return false };
        let has = self.compute_capability.0 * 10 + self.compute_capability.1;
        match number.strip_prefix(digits) {
            Some("a") => has == needs,
            Some("f") => has / 10 == needs / 10 && has >= needs,
            _ => has >= needs,
        }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.compute_capability;
        write!(f, "{} (compute capability {major}.{minor})", self.name)
    }
}

/// The CUDA version the driver supports, if there is a driver.
pub fn driver_version() -> Result<(u32, u32), Error> {
    driver::ensure_present()?;
    Ok(driver::version()?)
}

impl Device {
    /// Opens GPU `ordinal`; machine code is cached where [`CubinCache::default`] says.
    pub fn open(ordinal: u32) -> Result<Device, Error> {
        let supports = driver_version()?;
        if supports < OLDEST_DRIVER {
            return Err(Error::OldDriver { supports });
        }
        driver::ensure_complete()?;
        driver::init()?;
        let count = driver::device_count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&ordinal) {
            return Ok(device.clone());
        }
        let context = Context::retain(ordinal)?;
        let info = Arc::new(DeviceInfo::of(ordinal, &context)?);
        let device =
            Device { context, info, cache: CubinCache::default(), modules: Arc::default() };
        open.insert(ordinal, device.clone());
        Ok(device)
    }

    /// How many GPUs the driver sees; 0 where there is no driver.
    pub fn count() -> Result<u32, Error> {
        match driver::ensure_present() {
            Err(Error::NoDriver) => return Ok(0),
            present => present?,
        }
        match driver::init().and_then(|()| driver::device_count()) {
            Ok(count) => Ok(count),
            Err(error) if Error::from(error.clone()).is_no_gpu() => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The same device with another cache of machine code, and nothing loaded yet.
    pub fn with_cache(self, cache: CubinCache) -> Device {
        Device { cache, modules: Arc::default(), ..self }
    }

    /// Facts about the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The cache of machine code.
    pub fn cache(&self) -> &CubinCache {
        &self.cache
    }

    /// Checks and compiles a program and prepares its launches.
    pub fn load(&self, program: &Program) -> Result<Loaded, Error> {
        Loaded::new(self, program)
    }

    /// Allocates device memory; its contents are undefined.
    pub fn alloc(&self, bytes: usize) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::new(self, bytes)
    }

    /// Allocates device memory that holds `bytes`.
    pub fn upload(&self, bytes: &[u8]) -> Result<DeviceBuffer, Error> {
        let mut buffer = DeviceBuffer::new(self, bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// The device's default stream.
    pub fn default_stream(&self) -> Stream {
        Stream::default_of(self)
    }

    /// A new stream that waits for no other.
    pub fn new_stream(&self) -> Result<Stream, Error> {
        Stream::create(self)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn modules(&self) -> &Modules {
        &self.modules
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(compute_capability: (u32, u32)) -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: "test".into(),
            compute_capability,
            sm_count: 1,
            memory_bytes: 0,
            shared_bytes: 0,
            l2_bytes: 0,
            driver: (13, 0),
        }
    }

    #[test]
    fn targets_run_where_their_suffix_allows() {
        let hopper = device((9, 0));
        assert!(hopper.runs("sm_90a") && hopper.runs("sm_90") && hopper.runs("sm_80"));
        assert!(!hopper.runs("sm_100a") && !hopper.runs("sm_80a") && !hopper.runs("sm_100"));
        let blackwell = device((10, 3));
        assert!(blackwell.runs("sm_100f") && blackwell.runs("sm_103a") && blackwell.runs("sm_90"));
        assert!(!blackwell.runs("sm_100a") && !blackwell.runs("sm_90a"));
        assert!(!device((12, 0)).runs("sm_100f"));
        assert!(!hopper.runs("compute_90") && !hopper.runs("sm_"));
    }
}
