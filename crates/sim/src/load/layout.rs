use ptx::ast::{Linkage, Space, Variable};
use ptx::resolve::{Arg, Base, Body, Owner, Var, VariableUse};
use std::collections::{HashMap, HashSet};

/// The first bytes of shared memory belong to the system on sm_90 and later.
pub const RESERVED_SHARED: u32 = 1024;
/// `%reserved_smem_offset_1`: from here on they are for libraries to use (cooperative groups do).
pub const SHARED_SCRATCH: u32 = 512;

/// A kernel parameter's place.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Byte offset.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A shared variable's place.
#[derive(Clone, Debug)]
pub struct SharedVariable {
    /// Name.
    pub name: String,
    /// Offset in shared memory.
    pub offset: u32,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Param(u32),
    Shared(u32),
    Local(u32),
    Module,
}

/// All variables of a kernel and the functions it calls, placed.
pub(super) struct Variables {
    /// By declaration: a variable of the module is the same one in every function.
    places: HashMap<*const Variable, Place>,
    pub(super) params: Vec<Parameter>,
    pub(super) param_bytes: u32,
    pub(super) shared: Vec<SharedVariable>,
    pub(super) dynamic_shared: u32,
    pub(super) local_bytes: u32,
}

/// Bytes of one element and of the whole variable; an open extent counts as 0.
pub(crate) fn size_of(variable: &Variable) -> (u64, u64) {
    let element =
        u64::from(variable.ty.bits().max(8) / 8) * u64::from(variable.vector.unwrap_or(1));
    let count: u64 = variable.extents.iter().map(|e| e.unwrap_or(0)).product();
    (element, element * count)
}

pub(crate) fn align_of(variable: &Variable) -> u64 {
    variable.align.map_or_else(|| size_of(variable).0, u64::from).max(1)
}

/// A region that grows at its end.
struct Region(u64);

impl Region {
    fn take(&mut self, variable: &Variable) -> u32 {
        let at = self.0.next_multiple_of(align_of(variable));
        self.0 = at + size_of(variable).1;
        at as u32
    }
}

impl Variables {
    /// Places the variables of a kernel's body and of the functions it calls.
    pub(super) fn place(kernel: &Body, functions: &[&Body]) -> Result<Variables, String> {
        let mut regions =
            Regions { params: Region(0), shared: Region(RESERVED_SHARED.into()), local: Region(0) };
        let mut placed = Variables {
            places: HashMap::new(),
            params: Vec::new(),
            param_bytes: 0,
            shared: Vec::new(),
            dynamic_shared: 0,
            local_bytes: 0,
        };
        let mut dynamic = Vec::new();
        for body in std::iter::once(&kernel).chain(functions) {
            let is_kernel = std::ptr::eq(*body, kernel);
            for variable in needed_variables(body) {
                if placed.places.contains_key(&std::ptr::from_ref(variable.variable)) {
                    continue;
                }
                let parameter = is_kernel && matches!(variable.owner, Owner::Parameter(_));
                if is_dynamic(variable.variable) {
                    dynamic.push(variable.variable);
                } else {
                    placed.assign(variable.variable, parameter, &mut regions)?;
                }
            }
        }
        placed.param_bytes = regions.params.0 as u32;
        placed.local_bytes = regions.local.0.next_multiple_of(16) as u32;
        placed.place_dynamic(&dynamic, regions.shared.0);
        Ok(placed)
    }

    fn assign(
        &mut self,
        variable: &Variable,
        parameter: bool,
        regions: &mut Regions,
    ) -> Result<(), String> {
        let name = variable.name.to_string();
        let bytes = size_of(variable).1 as u32;
        let place = match variable.space {
            Space::Param if parameter => {
                let offset = regions.params.take(variable);
                self.params.push(Parameter { name, offset, bytes });
                Place::Param(offset)
            }
            // Parameters of calls live with the thread.
            Space::Param | Space::Local => Place::Local(regions.local.take(variable)),
            Space::Shared => {
                let offset = regions.shared.take(variable);
                self.shared.push(SharedVariable { name, offset });
                Place::Shared(offset)
            }
            Space::Global | Space::Const => Place::Module,
            Space::Reg => return Err(format!("`{name}` is a register declared as a variable")),
        };
        self.places.insert(variable, place);
        Ok(())
    }

    /// Where a variable is.
    pub(super) fn of(&self, variable: &Variable) -> Option<Place> {
        self.places.get(&std::ptr::from_ref(variable)).copied()
    }

    /// Every open-ended shared array starts where the static ones end.
    fn place_dynamic(&mut self, dynamic: &[&Variable], end: u64) {
        let align = dynamic.iter().map(|v| align_of(v)).max().unwrap_or(16).max(16);
        self.dynamic_shared = end.next_multiple_of(align) as u32;
        for &variable in dynamic {
            let offset = self.dynamic_shared;
            self.places.insert(variable, Place::Shared(offset));
            self.shared.push(SharedVariable { name: variable.name.to_string(), offset });
        }
    }
}

struct Regions {
    params: Region,
    shared: Region,
    local: Region,
}

fn is_dynamic(variable: &Variable) -> bool {
    let open = variable.extents.iter().any(Option::is_none);
    variable.space == Space::Shared && (open || variable.linkage == Some(Linkage::Extern))
}

/// Parameters and results, and every other variable that an instruction names.
fn needed_variables<'a, 'm>(body: &'a Body<'m>) -> impl Iterator<Item = &'a VariableUse<'m>> {
    let mut used = HashSet::new();
    for instruction in &body.instructions {
        instruction.args.iter().for_each(|arg| collect(arg, &mut used));
    }
    let needed = move |(index, entry): &(usize, &VariableUse)| {
        let passed = matches!(entry.owner, Owner::Parameter(_) | Owner::Return(_));
        passed || used.contains(&Var(*index as u32))
    };
    body.variables.iter().enumerate().filter(needed).map(|(_, entry)| entry)
}

fn collect(arg: &Arg, used: &mut HashSet<Var>) {
    match arg {
        Arg::Variable(var, _)
        | Arg::Address(Base::Variable(var), _)
        | Arg::TensorAddress(Base::Variable(var), ..) => {
            used.insert(*var);
        }
        Arg::Vector(args) | Arg::List(args) => args.iter().for_each(|a| collect(a, used)),
        Arg::Pair(a, b) => {
            collect(a, used);
            collect(b, used);
        }
        _ => {}
    }
}
