use ptx::ast::{Initializer, Linkage, Space, Variable};
use ptx::resolve::{Arg, Base, Body, Owner, Var, VariableUse};
use std::collections::{HashMap, HashSet};

/// The first bytes of shared memory belong to the system on sm_90 and later.
pub const RESERVED_SHARED: u32 = 1024;
/// `%reserved_smem_offset_1`: from here on they are for libraries to use (cooperative groups do).
pub const SHARED_SCRATCH: u32 = 512;

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
pub(crate) enum Place {
    Param(u32),
    Shared(u32),
    Local(u32),
    Module,
}

/// All variables of a kernel and the functions it calls, placed.
pub(crate) struct Variables {
    /// By declaration: a variable of the module is the same one in every function.
    places: HashMap<*const Variable, Place>,
    pub(crate) params: Vec<u32>,
    pub(crate) param_bytes: u32,
    pub(crate) shared: Vec<SharedVariable>,
    pub(crate) dynamic_shared: u32,
    pub(crate) local_bytes: u32,
}

/// Array extents and the vector's length. An open extent has as many elements as its initial value, or none.
pub(crate) fn extents_of(variable: &Variable) -> Vec<u64> {
    let open = match &variable.init {
        Some(Initializer::List(values)) => values.len() as u64,
        _ => 0,
    };
    let arrays = variable.extents.iter().map(|extent| extent.unwrap_or(open));
    arrays.chain(variable.vector.map(u64::from)).collect()
}

/// Bytes of one element and of the whole variable, at most [`u64::MAX`].
pub(crate) fn size_of(variable: &Variable) -> (u64, u64) {
    let number = u64::from(variable.ty.bits().max(8) / 8);
    let bytes = extents_of(variable).into_iter().fold(number, u64::saturating_mul);
    (number * u64::from(variable.vector.unwrap_or(1)), bytes)
}

pub(crate) fn align_of(variable: &Variable) -> u64 {
    variable.align.map_or_else(|| size_of(variable).0, u64::from).max(1)
}

/// A region that grows at its end, up to what the chip has of it.
struct Region {
    what: &'static str,
    end: u64,
    most: u64,
}

impl Region {
    fn take(&mut self, variable: &Variable) -> Result<u32, String> {
        let (align, bytes) = (align_of(variable), size_of(variable).1);
        let start = self.end.checked_next_multiple_of(align);
        let end = start.and_then(|start| start.checked_add(bytes)).filter(|end| *end <= self.most);
        let (Some(start), Some(end)) = (start, end) else {
            let Region { what, end: taken, most } = self;
            return Err(format!(
                "`{}` has {bytes} bytes, aligned to {align}: {taken} of {most} bytes of {what} are taken",
                variable.name
            ));
        };
        self.end = end;
        Ok(start as u32)
    }
}

/// Local memory of a thread, on every architecture.
const MOST_LOCAL: u64 = 512 << 10;

impl Variables {
    /// Places the variables of a kernel's body and of the functions it calls.
    pub(crate) fn place(
        kernel: &Body,
        functions: &[&Body],
        chip: &program::Limits,
    ) -> Result<Variables, String> {
        let mut regions = Regions::new(chip);
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
        placed.param_bytes = regions.params.end as u32;
        placed.local_bytes = regions.local.end.next_multiple_of(16) as u32;
        placed.place_dynamic(&dynamic, &regions.shared)?;
        Ok(placed)
    }

    fn assign(
        &mut self,
        variable: &Variable,
        parameter: bool,
        regions: &mut Regions,
    ) -> Result<(), String> {
        let name = variable.name.to_string();
        let place = match variable.space {
            Space::Param if parameter => {
                let offset = regions.params.take(variable)?;
                self.params.push(offset);
                Place::Param(offset)
            }
            // Parameters of calls live with the thread.
            Space::Param | Space::Local => Place::Local(regions.local.take(variable)?),
            Space::Shared => {
                let offset = regions.shared.take(variable)?;
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
    pub(crate) fn of(&self, variable: &Variable) -> Option<Place> {
        self.places.get(&std::ptr::from_ref(variable)).copied()
    }

    /// Every open-ended shared array starts where the static ones end.
    fn place_dynamic(&mut self, dynamic: &[&Variable], shared: &Region) -> Result<(), String> {
        let align = dynamic.iter().map(|v| align_of(v)).max().unwrap_or(16).max(16);
        let start = shared.end.checked_next_multiple_of(align);
        let start = start.filter(|start| *start <= shared.most.next_multiple_of(16));
        self.dynamic_shared = start.ok_or_else(|| {
            let (end, most) = (shared.end, shared.most);
            format!("dynamic shared memory aligned to {align}, behind {end} of {most} bytes")
        })? as u32;
        for &variable in dynamic {
            let offset = self.dynamic_shared;
            self.places.insert(variable, Place::Shared(offset));
            self.shared.push(SharedVariable { name: variable.name.to_string(), offset });
        }
        Ok(())
    }
}

struct Regions {
    params: Region,
    shared: Region,
    local: Region,
}

impl Regions {
    fn new(chip: &program::Limits) -> Regions {
        let reserved = u64::from(RESERVED_SHARED);
        let most_shared = reserved + u64::from(chip.shared_bytes);
        Regions {
            params: Region { what: "parameters", end: 0, most: chip.param_bytes },
            shared: Region { what: "shared memory", end: reserved, most: most_shared },
            local: Region { what: "local memory", end: 0, most: MOST_LOCAL },
        }
    }
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
