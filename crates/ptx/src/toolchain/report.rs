//! Reads what `ptxas -v` prints on success.

/// What one kernel needs from the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    /// Kernel name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes stored to local memory because registers ran out.
    pub spill_stores: u32,
    /// Bytes loaded back.
    pub spill_loads: u32,
    /// Bytes of stack frame of a thread.
    pub stack: u32,
    /// Bytes of static shared memory.
    pub smem: u32,
    /// Named barriers.
    pub barriers: u32,
}

/// The resources of each kernel in a log.
///
/// A kernel's part begins with `Compiling entry function 'name'`; the properties and the `Used …`
/// line that follow belong to it. A `.func`'s properties line names another function and is passed
/// over.
pub(super) fn kernels(log: &str) -> Vec<KernelResources> {
    let mut kernels: Vec<KernelResources> = Vec::new();
    let mut properties_of = String::new();
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            kernels.push(KernelResources { name: name.into(), ..Default::default() });
            continue;
        }
        if let Some((_, name)) = line.split_once("Function properties for ") {
            properties_of = name.trim().into();
            continue;
        }
        let Some(kernel) = kernels.last_mut() else { continue };
        if line.contains("bytes stack frame") && properties_of == kernel.name {
            kernel.stack = number_before(line, " bytes stack frame");
            kernel.spill_stores = number_before(line, " bytes spill stores");
            kernel.spill_loads = number_before(line, " bytes spill loads");
        } else if line.contains(": Used ") {
            kernel.registers = number_before(line, " registers");
            kernel.barriers = number_before(line, " barriers");
            kernel.smem = number_before(line, " bytes smem");
        }
    }
    kernels
}

/// The lines of a log that a kernel author should read: warnings, and advisories with a code.
pub(super) fn warnings(log: &str) -> Vec<String> {
    let wanted = |line: &&str| line.contains("warning") || has_advisory_code(line);
    log.lines().filter(wanted).map(|line| line.trim().to_string()).collect()
}

/// Whether a line carries a code such as `(C7510)`.
fn has_advisory_code(line: &str) -> bool {
    between(line, "(C", ")").is_some_and(|code| code.bytes().all(|b| b.is_ascii_digit()))
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(line.split_once(before)?.1.split_once(after)?.0)
}

/// The number that stands right before `unit`, 0 where the unit is not mentioned.
fn number_before(line: &str, unit: &str) -> u32 {
    let Some((before, _)) = line.split_once(unit) else { return 0 };
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage in the function 'second'
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    64 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 168 registers, used 4 barriers, 64 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 6.870 ms
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
";

    #[test]
    fn every_number_of_a_kernel_is_read() {
        let kernels = kernels(LOG);
        let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, ["second", "first"]);
        let expected = KernelResources {
            name: "second".into(),
            registers: 168,
            spill_stores: 12,
            spill_loads: 16,
            stack: 64,
            smem: 1024,
            barriers: 4,
        };
        assert_eq!(kernels[0], expected);
        assert_eq!(kernels[1].registers, 8);
        assert_eq!(kernels[1].smem, 0);
    }

    #[test]
    fn serialisation_of_wgmma_is_a_warning_and_compile_time_is_not() {
        let warnings = warnings(LOG);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("C7510"));
    }
}
