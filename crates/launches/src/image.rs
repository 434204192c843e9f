//! What a program hands over as a module: PTX text, a fat binary with PTX in it, or machine code.

use crate::fatbin;
use std::ffi::CStr;

/// What is wrong with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is none.
    Missing,
    /// It is nothing that the driver takes.
    Invalid,
    /// There is no PTX in it that the device can run.
    NoPtx,
}

/// Why an image gives no PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub reason: Reason,
    /// The same as a sentence.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into() }
    }
}

const ELF: [u8; 4] = *b"\x7fELF";

/// What a program with machine code alone is told.
pub const MACHINE_CODE: &str = "this module is machine code (a cubin), and the simulator runs PTX: build with PTX kept \
     (nvcc -gencode arch=compute_90a,code=compute_90a), or run Triton under `sixwarp check`, which keeps it";

/// The PTX in an image, for a device of architecture `sm`.
///
/// # Safety
/// `image` points to what `cuModuleLoadData` takes: text that ends with a zero, an ELF file, a fat binary, or the
/// structure that the compiler wraps around one.
pub unsafe fn ptx_of(image: *const u8, sm: u32) -> Result<String, Refusal> {
    if image.is_null() {
        return Err(Refusal::new(Reason::Missing, "there is no image"));
    }
    // SAFETY: every kind of image has at least four bytes: text without a `.version` is none, and an empty text
    // ends with a zero, which the first byte tells before the others are read.
    let magic = unsafe {
        match *image {
            0 => return Err(Refusal::new(Reason::Invalid, "the image is empty")),
            _ => image.cast::<[u8; 4]>().read_unaligned(),
        }
    };
    if magic == ELF {
        return Err(Refusal::new(Reason::NoPtx, MACHINE_CODE));
    }
    // SAFETY: the caller vouches for the structure that the magic number announces.
    unsafe {
        match u32::from_le_bytes(magic) {
            fatbin::WRAPPER => fatbin::ptx_of_wrapper(image, sm),
            fatbin::HEADER => fatbin::ptx_of(image, sm),
            _ => text_of(image),
        }
    }
}

/// # Safety
/// The text ends with a zero.
unsafe fn text_of(image: *const u8) -> Result<String, Refusal> {
    // SAFETY: the caller vouches for the zero at the end.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Refusal::new(Reason::Invalid, "the image is neither PTX nor a fat binary")),
    }
}

/// How well PTX for a `.target` suits a device: the architecture's number, or nothing if it cannot run there.
///
/// PTX of a plain target runs on later architectures, `a` targets on their own alone, `f` targets on their family.
pub fn suits(target: &str, sm: u32) -> Option<u32> {
    let name = target.strip_prefix("sm_")?;
    let digits = name.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let number: u32 = digits.parse().ok()?;
    let fits = match &name[digits.len()..] {
        "" => number <= sm,
        "a" => number == sm,
        "f" => number / 10 == sm / 10 && number <= sm,
        _ => false,
    };
    fits.then_some(number)
}

/// The first name behind `.target` in PTX text.
pub fn target_of(ptx: &str) -> Option<&str> {
    let lines = ptx.lines().map(|line| line.split("//").next().unwrap_or_default());
    let rest = lines.filter_map(|line| Some(line.split_once(".target")?.1)).next()?;
    rest.split([',', ' ', '\t', ';']).find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_suit_the_devices_that_can_run_them() {
        assert_eq!(suits("sm_80", 90), Some(80));
        assert_eq!(suits("sm_90a", 90), Some(90));
        assert_eq!(suits("sm_90a", 100), None);
        assert_eq!(suits("sm_100f", 100), Some(100));
        assert_eq!(suits("sm_120", 100), None);
        assert_eq!(suits("compute_90", 90), None);
    }

    #[test]
    fn the_target_is_found_behind_comments() {
        let text = "// .target sm_10\n.version 8.7\n.target sm_90a, debug\n";
        assert_eq!(target_of(text), Some("sm_90a"));
        assert_eq!(target_of(".version 8.7"), None);
    }

    #[test]
    fn text_is_taken_and_machine_code_refused_by_name() {
        // SAFETY: the images end as they should.
        unsafe {
            let text = c".version 8.7 .target sm_90a";
            assert_eq!(ptx_of(text.as_ptr().cast(), 90).unwrap(), ".version 8.7 .target sm_90a");
            let refusal = ptx_of(b"\x7fELF\x02".as_ptr(), 90).unwrap_err();
            assert_eq!(refusal.reason, Reason::NoPtx);
            assert!(refusal.text.contains("machine code"));
            assert_eq!(ptx_of(c"".as_ptr().cast(), 90).unwrap_err().reason, Reason::Invalid);
        }
    }
}
