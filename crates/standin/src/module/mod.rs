//! Modules: PTX that was read, its kernels and its variables.

use crate::memory::{Kind, Memory};
use crate::result::{CudaResult, Outcome};
use launches::{Reason, suits};
use ptx::Symbol;
use ptx::ast::{Function, Item};
use sim::ModuleVariable;
use std::collections::HashMap;
use std::sync::Arc;

/// Why an image cannot be a module here.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the program gets.
    pub result: CudaResult,
    /// What its log gets.
    pub text: String,
}

impl Refusal {
    fn new(result: CudaResult, text: impl Into<String>) -> Refusal {
        Refusal { result, text: text.into() }
    }
}

impl From<launches::Refusal> for Refusal {
    fn from(refusal: launches::Refusal) -> Refusal {
        let result = match refusal.reason {
            Reason::Missing => CudaResult::INVALID_VALUE,
            Reason::Invalid => CudaResult::INVALID_IMAGE,
            Reason::NoPtx => CudaResult::NO_BINARY_FOR_GPU,
        };
        Refusal { result, text: refusal.text }
    }
}

/// A loaded module.
pub struct Module {
    /// The PTX, line by line as it came.
    pub text: String,
    /// The PTX as data.
    pub ptx: Arc<ptx::Module>,
    /// Where each variable is.
    pub variables: HashMap<Symbol, u64>,
    /// What is known of each variable.
    pub described: Vec<ModuleVariable>,
}

impl Module {
    /// Reads PTX for a device of architecture `sm`.
    pub fn parse(text: String, sm: u32) -> Result<Module, Refusal> {
        let text = launches::without_inline_locations(&text);
        let parsed = ptx::parse(&text).map_err(|error| {
            let line = format!("ptxas application ptx input; error   : {error}");
            Refusal::new(CudaResult::INVALID_PTX, line)
        })?;
        let target = parsed.target.first().map_or("", |target| target.as_str());
        if suits(target, sm).is_none() {
            let line = format!("ptxas fatal   : the PTX is for {target}, the device is sm_{sm}");
            return Err(Refusal::new(CudaResult::NO_BINARY_FOR_GPU, line));
        }
        let wrong: Vec<String> = ptx::verify(&parsed).iter().map(diagnostic).collect();
        if !wrong.is_empty() {
            return Err(Refusal::new(CudaResult::INVALID_PTX, wrong.join("\n")));
        }
        let described = sim::module_variables(&parsed);
        Ok(Module { text, ptx: Arc::new(parsed), variables: HashMap::new(), described })
    }

    /// Gives every variable memory with its initial value.
    pub fn place_variables(&mut self, memory: &mut Memory) -> Outcome {
        for variable in &self.described {
            let address = match self.is_managed(variable.name) {
                true => memory.allocate_host(variable.bytes, Kind::Managed)?,
                false => memory.allocate(variable.bytes, variable.align, Kind::Variable)?,
            };
            if let Some(allocation) = memory.get_mut(address) {
                allocation.name = Some(variable.name.to_string());
                allocation.read_only = variable.read_only;
            }
            self.variables.insert(variable.name, address);
        }
        for (name, address) in &self.variables {
            let value = sim::initial_value(&self.ptx, *name, &self.variables).map_err(|error| {
                eprintln!("sixwarp: {error}");
                CudaResult::INVALID_PTX
            })?;
            // SAFETY: the address was allocated above, with as many bytes as the value has.
            unsafe { memory.write(*address, &value)? };
        }
        Ok(())
    }

    /// Gives the memory of its variables back.
    pub fn release_variables(&self, memory: &mut Memory) {
        for address in self.variables.values() {
            // One that is not there any more needs no giving back.
            let _ = memory.release(*address, &[Kind::Variable, Kind::Managed]);
        }
    }

    /// Whether the host shares a variable.
    fn is_managed(&self, name: Symbol) -> bool {
        self.ptx.items.iter().any(|item| match item {
            Item::Variable(variable) => {
                variable.name == name
                    && variable.attribute.is_some_and(|a| a.as_str() == ".managed")
            }
            _ => false,
        })
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Function> {
        self.ptx.entry(name)
    }
}

/// A broken rule as the assembler would print it.
fn diagnostic(violation: &ptx::Violation) -> String {
    let ptx::Violation { line, subject, message, .. } = violation;
    format!("ptxas application ptx input, line {line}; error   : {message} (`{subject}`)")
}

/// The largest number of threads that a kernel's directives allow.
pub fn most_threads(kernel: &Function) -> u32 {
    let limits = kernel.directives.iter().filter(|d| d.name == "maxntid" || d.name == "reqntid");
    let threads = limits.map(|d| d.values.iter().product::<u64>()).min();
    threads.map_or(1024, |threads| threads.clamp(1, 1024) as u32)
}

/// Registers of a thread: what the directives say, or a usual number, because only the assembler knows.
pub fn registers(kernel: &Function) -> u32 {
    const USUAL: u32 = 64;
    ptx::registers_at_launch(&kernel.directives).unwrap_or(USUAL).min(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.7 .target sm_90a .address_size 64
        .global .u32 table[2] = {1, 2};
        .global .u64 address = table;
        .visible .entry f(.param .u64 out) .maxntid 128, 1, 1 { ret; }";

    #[test]
    fn variables_have_memory_and_values() {
        let mut memory = Memory::new();
        let mut module = Module::parse(TEXT.into(), 90).unwrap();
        module.place_variables(&mut memory).unwrap();
        let table = module.variables[&Symbol::new("table")];
        let address = module.variables[&Symbol::new("address")];
        // SAFETY: device addresses are looked up, not followed.
        unsafe {
            assert_eq!(memory.read(table, 8).unwrap(), [1, 0, 0, 0, 2, 0, 0, 0]);
            assert_eq!(memory.read(address, 8).unwrap(), table.to_le_bytes());
        }
        module.release_variables(&mut memory);
        assert!(memory.find(table).is_none());
    }

    #[test]
    fn directives_limit_threads() {
        let module = Module::parse(TEXT.into(), 90).unwrap();
        assert_eq!(most_threads(module.kernel("f").unwrap()), 128);
        assert!(module.kernel("g").is_none());
    }

    #[test]
    fn wrong_ptx_is_refused_with_its_line() {
        let refused = |text: &str, sm| Module::parse(text.into(), sm).err().unwrap();
        assert_eq!(refused(TEXT, 100).result, CudaResult::NO_BINARY_FOR_GPU);
        assert_eq!(refused("hello", 90).result, CudaResult::INVALID_PTX);
        let wrong = TEXT.replace("{ ret; }", "{\n.reg .f32 %f;\nadd.u32 %f, 1, 2; }");
        let refusal = refused(&wrong, 90);
        assert_eq!(refusal.result, CudaResult::INVALID_PTX);
        assert!(refusal.text.starts_with("ptxas application ptx input, line 6; error   : "));
    }
}
