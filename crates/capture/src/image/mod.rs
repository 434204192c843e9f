//! Images of modules, and the PTX that belongs to them.

mod beside;
mod elf;

pub use beside::Known;

use crate::real;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What a program has loaded.
pub struct Image {
    source: Source,
    /// PTX that was found for machine code.
    found: OnceLock<String>,
}

enum Source {
    Ptx(String),
    /// An ELF file with machine code.
    Machine(Vec<u8>),
    /// Why there is no PTX.
    None(String),
}

/// What a user can do about machine code.
const ADVICE: &str = "its module is machine code, and the simulator runs PTX. Triton keeps the PTX in its cache: leave \
     that folder in place, or name it with --ptx. Otherwise build with PTX kept (nvcc -gencode \
     arch=compute_90a,code=compute_90a), or name a folder with the kernel's .ptx file by --ptx";

impl Image {
    fn new(source: Source) -> Image {
        Image { source, found: OnceLock::new() }
    }

    /// What a program passes as an image.
    ///
    /// # Safety
    /// `image` is what `cuModuleLoadData` takes, and the driver has taken it.
    pub unsafe fn of(image: *const u8) -> Image {
        // SAFETY: the caller's contract.
        unsafe {
            match elf::image(image) {
                Some(code) => Image::new(Source::Machine(code.to_vec())),
                None => Image::new(match launches::ptx_of(image, real::architecture()) {
                    Ok(text) => Source::Ptx(launches::without_inline_locations(&text)),
                    Err(refusal) => Source::None(refusal.text),
                }),
            }
        }
    }

    /// What a file holds that the driver has loaded.
    pub fn of_file(path: &Path) -> Image {
        match std::fs::read(path) {
            Ok(mut bytes) => {
                bytes.push(0);
                // SAFETY: text ends with the zero; everything else says how long it is, and the driver has taken it.
                unsafe { Image::of(bytes.as_ptr()) }
            }
            Err(error) => Image::new(Source::None(format!("{}: {error}", path.display()))),
        }
    }

    /// The PTX with a kernel: of the image, or what belongs to its machine code.
    pub fn ptx(&self, kernel: &str, known: &Known, folders: &[PathBuf]) -> Result<&str, String> {
        match &self.source {
            Source::Ptx(text) => Ok(text),
            Source::None(why) => match beside::by_name(kernel, folders) {
                Some(text) => Ok(self.keep(&text)),
                None => Err(why.clone()),
            },
            Source::Machine(code) => {
                if let Some(text) = self.found.get() {
                    return Ok(text);
                }
                let text = known.find(code, folders).or_else(|| beside::by_name(kernel, folders));
                text.map(|text| self.keep(&text)).ok_or_else(|| ADVICE.to_owned())
            }
        }
    }

    fn keep(&self, text: &str) -> &str {
        self.found.get_or_init(|| launches::without_inline_locations(text))
    }
}
