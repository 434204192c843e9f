use crate::{Arch, Error};
use std::fmt;
use std::str::FromStr;

/// Who computes.
///
/// Devices have the same names everywhere: `cpu`, `oracle`, `cuda` or `cuda:N`.
///
/// ```
/// use sixwarp::Device;
/// let device: Device = "cpu".parse()?;
/// assert_eq!(device.to_string(), "cpu");
/// # Ok::<(), sixwarp::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Cpu,
    Oracle,
    Cuda { ordinal: u32, arch: Arch, device: cuda::Device },
}

impl Device {
    /// This machine's CPU, on rayon's current thread pool.
    pub fn cpu() -> Self {
        Self(Kind::Cpu)
    }

    /// The f64 oracle: attention from its definition, slow, rounded once at the end.
    pub fn oracle() -> Self {
        Self(Kind::Oracle)
    }

    /// GPU number `ordinal`.
    ///
    /// # Errors
    /// If there is no driver, no such GPU, or it is of a generation without kernels.
    pub fn cuda(ordinal: u32) -> Result<Self, Error> {
        let device = cuda::Device::open(ordinal)?;
        let arch = [Arch::Sm90, Arch::Sm100]
            .into_iter()
            .find(|arch| device.info().runs(&arch.to_string()))
            .ok_or_else(|| {
                Error::NoDevice(format!("there are no kernels for {}", device.info()))
            })?;
        Ok(Self(Kind::Cuda { ordinal, arch, device }))
    }

    /// The GPU generation whose kernels run here, where it is one.
    pub fn arch(&self) -> Option<Arch> {
        match &self.0 {
            Kind::Cpu | Kind::Oracle => None,
            Kind::Cuda { arch, .. } => Some(*arch),
        }
    }

    /// What the device is, for people.
    pub fn describe(&self) -> String {
        match &self.0 {
            Kind::Cpu => {
                let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
                format!("this machine's CPU, {:?}, {threads} threads", cpu::Isa::best())
            }
            Kind::Oracle => "the f64 oracle".to_string(),
            Kind::Cuda { device, .. } => device.info().to_string(),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cpu => f.write_str("cpu"),
            Kind::Oracle => f.write_str("oracle"),
            Kind::Cuda { ordinal, .. } => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::NoDevice(format!("unknown device `{name}`: one of cpu, oracle, cuda, cuda:N"))
        };
        match name {
            "cpu" => Ok(Self::cpu()),
            "oracle" => Ok(Self::oracle()),
            "cuda" => Self::cuda(0),
            _ => {
                let ordinal = name.strip_prefix("cuda:").ok_or_else(unknown)?;
                Self::cuda(ordinal.parse().map_err(|_| unknown())?)
            }
        }
    }
}
