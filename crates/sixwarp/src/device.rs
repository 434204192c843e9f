use crate::{Arch, DeviceName, Error, FewHeads, PlanOptions, Unsupported};
use kernels::{UnknownArch, UnknownFewHeads};
use std::fmt;
use std::str::FromStr;

/// Names the generation whose kernels GPUs take instead of those of their own.
const ARCH_VARIABLE: &str = "SIXWARP_ARCH";

/// KV tiles of a share from which on Hopper GPUs leave the last part of a batch to the CTAs that are done first.
const TAIL_VARIABLE: &str = "SIXWARP_TAIL";

/// Says whether Hopper GPUs take their kernel for few heads: `always` or `never`.
const FEW_HEADS_VARIABLE: &str = "SIXWARP_FEW_HEADS";

/// Says whether tensor copies bring packed rows on Blackwell GPUs: `always` or `never`.
const PACKED_COPIES_VARIABLE: &str = "SIXWARP_PACKED_COPIES";

/// Who computes.
///
/// Devices are called by a [`DeviceName`].
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
    Simulated { arch: Arch, options: sim::Options },
}

impl Device {
    /// The device called `name`.
    ///
    /// # Errors
    /// If this machine does not have it.
    pub fn open(name: DeviceName) -> Result<Self, Error> {
        match name {
            DeviceName::Cpu => Ok(Self::cpu()),
            DeviceName::Oracle => Ok(Self::oracle()),
            DeviceName::Cuda(ordinal) => Self::cuda(ordinal),
            DeviceName::Simulated(arch) => Ok(Self::simulated(arch)),
        }
    }

    /// What it is called.
    pub fn name(&self) -> DeviceName {
        match &self.0 {
            Kind::Cpu => DeviceName::Cpu,
            Kind::Oracle => DeviceName::Oracle,
            Kind::Cuda { ordinal, .. } => DeviceName::Cuda(*ordinal),
            Kind::Simulated { arch, .. } => DeviceName::Simulated(*arch),
        }
    }

    /// This machine's CPU, on rayon's current thread pool.
    pub fn cpu() -> Self {
        Self(Kind::Cpu)
    }

    /// The f64 oracle: attention from its definition, slow, rounded once at the end.
    pub fn oracle() -> Self {
        Self(Kind::Oracle)
    }

    /// GPU number `ordinal`, with the kernels of its generation, or of the one that the environment variable
    /// `SIXWARP_ARCH` names (`sm80`).
    ///
    /// # Errors
    /// If there is no driver, no such GPU, or it is of a generation without kernels; if it cannot run those asked for; if
    /// the environment variable `SIXWARP_FEW_HEADS` is not `auto`, `always` or `never`, `SIXWARP_PACKED_COPIES` is neither
    /// `always` nor `never`, or `SIXWARP_TAIL` is no number.
    pub fn cuda(ordinal: u32) -> Result<Self, Error> {
        let device = cuda::Device::open(ordinal)?;
        let arch = Arch::of_capability(device.info().compute_capability).ok_or_else(|| {
            Error::NoDevice(format!(
                "there are no kernels for {}: they need compute capability 8.0 (Ampere) or later; the device `cpu` \
                 computes the same",
                device.info()
            ))
        })?;
        let device = Self(Kind::Cuda { ordinal, arch, device });
        let wrong =
            |error: UnknownFewHeads| Error::NoDevice(format!("{FEW_HEADS_VARIABLE}: {error}"));
        few_heads().map_err(wrong)?;
        packed_copies()?;
        tiles(TAIL_VARIABLE)?;
        let Ok(name) = std::env::var(ARCH_VARIABLE) else { return Ok(device) };
        let wrong = |error| Error::NoDevice(format!("{ARCH_VARIABLE}: {error}"));
        device.with_arch(name.parse().map_err(|error: UnknownArch| wrong(error.to_string()))?)
    }

    /// The same device with the kernels of another generation, which it must be able to run: those of `sm_80`,
    /// `sm_86` and `sm_89` run on every later GPU.
    ///
    /// # Errors
    /// If the device is no GPU, simulated or not, or cannot run the kernels.
    pub fn with_arch(self, arch: Arch) -> Result<Self, Error> {
        match self.0 {
            Kind::Cuda { ordinal, device, .. } if device.info().runs(&arch.to_string()) => {
                Ok(Self(Kind::Cuda { ordinal, arch, device }))
            }
            Kind::Cuda { arch: own, device, .. } => {
                Err(other_kernels(arch, device.info(), own).into())
            }
            Kind::Simulated { options, .. } => Ok(Self(Kind::Simulated { arch, options })),
            Kind::Cpu | Kind::Oracle => Err(no_kernels(arch, self).into()),
        }
    }

    /// The simulator of a GPU of generation `arch`: the same kernels, on this machine's CPU, with
    /// every check on.
    pub fn simulated(arch: Arch) -> Self {
        Self::simulated_with(arch, sim::Options::default())
    }

    /// As [`Device::simulated`], with the simulator's own options.
    pub fn simulated_with(arch: Arch, options: sim::Options) -> Self {
        Self(Kind::Simulated { arch, options })
    }

    /// The GPU generation whose kernels run here, where it is one.
    pub fn arch(&self) -> Option<Arch> {
        match &self.0 {
            Kind::Cpu | Kind::Oracle => None,
            Kind::Cuda { arch, .. } | Kind::Simulated { arch, .. } => Some(*arch),
        }
    }

    /// The usual planner choices for this device; `None` where no kernels are planned. The environment
    /// variable `SIXWARP_FEW_HEADS` is [`PlanOptions::few_heads`]. Where `SIXWARP_PACKED_COPIES` is `always`, tensor copies
    /// bring packed rows on Blackwell. A number in `SIXWARP_TAIL` is [`PlanOptions::tail_from`].
    pub fn plan_options(&self) -> Option<PlanOptions> {
        let usual = PlanOptions::for_arch(self.arch()?);
        let few_heads = few_heads().ok().flatten().unwrap_or(usual.few_heads);
        let packed_copies = packed_copies().ok().flatten().unwrap_or(usual.packed_copies);
        let tiles = |name| tiles(name).ok().flatten();
        let tail_from = tiles(TAIL_VARIABLE);
        let usual = PlanOptions { few_heads, packed_copies, tail_from, ..usual };
        Some(match &self.0 {
            Kind::Cuda { device, .. } => {
                PlanOptions { processors: device.info().sm_count, ..usual }
            }
            _ => usual,
        })
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
            Kind::Simulated { arch, .. } => format!("a simulated {arch} GPU"),
        }
    }
}

/// Kernels of `arch` are asked for where only others run, those of `own` among them.
pub(crate) fn other_kernels(arch: Arch, gpu: impl fmt::Display, own: Arch) -> Unsupported {
    let why = format!("{gpu} does not run its kernels");
    Unsupported::new(format!("arch {arch}"), why).nearest(own.to_string())
}

/// Kernels of `arch` are asked for where none run.
pub(crate) fn no_kernels(arch: Arch, device: impl fmt::Display) -> Unsupported {
    Unsupported::new(format!("arch {arch}"), format!("{device} runs no kernels"))
}

/// A number of KV tiles in the environment.
fn tiles(variable: &str) -> Result<Option<u32>, Error> {
    let Ok(tiles) = std::env::var(variable) else { return Ok(None) };
    let wrong = |_| Error::NoDevice(format!("{variable}: `{tiles}` is no number of KV tiles"));
    tiles.parse().map(Some).map_err(wrong)
}

/// What the environment says about the kernel for few heads.
fn few_heads() -> Result<Option<FewHeads>, UnknownFewHeads> {
    std::env::var(FEW_HEADS_VARIABLE).ok().map(|choice| choice.parse()).transpose()
}

/// What the environment says about tensor copies of packed rows.
fn packed_copies() -> Result<Option<bool>, Error> {
    let Ok(choice) = std::env::var(PACKED_COPIES_VARIABLE) else { return Ok(None) };
    match choice.as_str() {
        "always" => Ok(Some(true)),
        "never" => Ok(Some(false)),
        other => {
            let known = "there are `always` and `never`";
            Err(Error::NoDevice(format!(
                "{PACKED_COPIES_VARIABLE}: `{other}` is not known: {known}"
            )))
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
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
        Self::open(name.parse()?)
    }
}
