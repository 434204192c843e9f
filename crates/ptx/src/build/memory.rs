//! Parameters, shared-memory pointers, loads and stores.

use super::builder::{Builder, DYNAMIC_SHARED};
use super::sync::RemoteMbarrier;
use super::value::{Arg, Reg, Scalar};
use crate::Symbol;
use crate::ast::{Address, AddressBase, Operand, Type};

/// An address in shared memory: a register plus a constant byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmemPtr {
    /// Register part.
    pub base: Reg<u32>,
    /// Constant part.
    pub offset: u32,
}

impl SmemPtr {
    /// `bytes` further on.
    pub fn plus(self, bytes: u32) -> Self {
        SmemPtr { offset: self.offset + bytes, ..self }
    }

    /// As a memory operand.
    pub fn operand(self) -> Operand {
        address(self.base, self.offset as i64)
    }
}

/// An address in the shared memory of a CTA of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSmemPtr {
    base: Reg<u32>,
    offset: u32,
}

impl SmemPtr {
    /// The same place in CTA `rank` of the cluster.
    #[track_caller]
    pub fn in_cta(self, b: &mut Builder, rank: impl Into<Arg<u32>>) -> RemoteSmemPtr {
        RemoteSmemPtr { base: b.map_to_rank(self.base, rank), offset: self.offset }
    }
}

impl RemoteSmemPtr {
    /// `bytes` further on.
    pub fn plus(self, bytes: u32) -> Self {
        RemoteSmemPtr { offset: self.offset + bytes, ..self }
    }

    /// As a memory operand.
    pub fn operand(self) -> Operand {
        address(self.base, self.offset as i64)
    }
}

/// An address in global memory: a register plus a constant byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalPtr {
    /// Register part.
    pub base: Reg<u64>,
    /// Constant part.
    pub offset: i64,
}

impl GlobalPtr {
    /// `bytes` further on.
    pub fn plus(self, bytes: i64) -> Self {
        GlobalPtr { offset: self.offset + bytes, ..self }
    }

    /// As a memory operand.
    pub fn operand(self) -> Operand {
        address(self.base, self.offset)
    }
}

impl From<Reg<u64>> for GlobalPtr {
    fn from(base: Reg<u64>) -> Self {
        GlobalPtr { base, offset: 0 }
    }
}

/// `[register+offset]`.
pub fn address<T: Scalar>(base: Reg<T>, offset: i64) -> Operand {
    Operand::Address(Address { base: AddressBase::Name(base.symbol()), offset })
}

/// A tensor map parameter: its generic address.
#[derive(Clone, Copy, Debug)]
pub struct TensorMapParam(pub Reg<u64>);

fn vector<T: Scalar>(registers: &[Reg<T>]) -> Operand {
    Operand::Vector(registers.iter().map(|r| r.operand()).collect())
}

impl Builder {
    /// A 32-bit kernel parameter.
    #[track_caller]
    pub fn param_u32(&mut self, name: &str) -> Reg<u32> {
        self.load_param(name, Type::U32)
    }

    /// A 64-bit kernel parameter.
    #[track_caller]
    pub fn param_u64(&mut self, name: &str) -> Reg<u64> {
        self.load_param(name, Type::U64)
    }

    /// A single-precision kernel parameter.
    #[track_caller]
    pub fn param_f32(&mut self, name: &str) -> Reg<f32> {
        self.load_param(name, Type::F32)
    }

    /// A pointer parameter, as a global address.
    #[track_caller]
    pub fn param_ptr(&mut self, name: &str) -> GlobalPtr {
        let generic = self.load_param::<u64>(name, Type::U64);
        let global = self.reg::<u64>();
        self.emit("cvta.to.global.u64", vec![global.operand(), generic.operand()]);
        global.into()
    }

    /// A tensor map passed by value.
    #[track_caller]
    pub fn param_tensor_map(&mut self, name: &str) -> TensorMapParam {
        let symbol = self.push_param(name, Type::B8, Some((128, 64)));
        let (param, generic) = (self.reg::<u64>(), self.reg::<u64>());
        self.emit("mov.b64", vec![param.operand(), Operand::Name(symbol)]);
        self.emit("cvta.param.u64", vec![generic.operand(), param.operand()]);
        TensorMapParam(generic)
    }

    #[track_caller]
    fn load_param<T: Scalar>(&mut self, name: &str, ty: Type) -> Reg<T> {
        let symbol = self.push_param(name, ty, None);
        let d = self.reg();
        let from = Operand::Address(Address { base: AddressBase::Name(symbol), offset: 0 });
        self.emit(&format!("ld.param.{ty}"), vec![d.operand(), from]);
        d
    }

    /// The start of the dynamic shared memory (1024-byte aligned).
    #[track_caller]
    pub fn shared_base(&mut self) -> SmemPtr {
        let base = self.reg();
        self.emit("mov.u32", vec![base.operand(), Operand::Name(Symbol::new(DYNAMIC_SHARED))]);
        SmemPtr { base, offset: 0 }
    }

    /// The pointer with `bytes` added at run time.
    #[track_caller]
    pub fn smem_add(&mut self, ptr: SmemPtr, bytes: impl Into<Arg<u32>>) -> SmemPtr {
        let base = self.add(ptr.base, bytes);
        SmemPtr { base, offset: ptr.offset }
    }

    /// The pointer with `bits` toggled: another vector of the same row of a swizzled tile.
    #[track_caller]
    pub fn smem_toggle(&mut self, ptr: SmemPtr, bits: u32) -> SmemPtr {
        if bits == 0 {
            return ptr;
        }
        assert!(
            ptr.offset.is_multiple_of(bits.next_power_of_two() * 2),
            "an offset that does not carry"
        );
        SmemPtr { base: self.xor(ptr.base, bits), ..ptr }
    }

    /// The address in one register.
    #[track_caller]
    pub fn smem_address(&mut self, ptr: SmemPtr) -> Reg<u32> {
        if ptr.offset == 0 { ptr.base } else { self.add(ptr.base, ptr.offset) }
    }

    /// The pointer with `bytes` added at run time.
    #[track_caller]
    pub fn global_add(&mut self, ptr: GlobalPtr, bytes: impl Into<Arg<u64>>) -> GlobalPtr {
        let base = self.add(ptr.base, bytes);
        GlobalPtr { base, offset: ptr.offset }
    }

    /// Where element `index` of an array of `T` is that begins at `array`.
    #[track_caller]
    pub fn element<T: Scalar>(&mut self, array: GlobalPtr, index: Reg<u32>) -> GlobalPtr {
        let offset = self.mul_wide(index, T::BYTES);
        self.global_add(array, offset)
    }

    /// Loads one value from shared memory.
    #[track_caller]
    pub fn ld_shared<T: Scalar>(&mut self, from: SmemPtr) -> Reg<T> {
        let d = self.reg();
        self.emit(&format!("ld.shared.{}", T::SUFFIX), vec![d.operand(), from.operand()]);
        d
    }

    /// Stores one value to shared memory.
    #[track_caller]
    pub fn st_shared<T: Scalar>(&mut self, to: SmemPtr, value: Reg<T>) {
        self.emit(&format!("st.shared.{}", T::SUFFIX), vec![to.operand(), value.operand()]);
    }

    /// Stores one value to shared memory where `p` holds.
    #[track_caller]
    pub fn st_shared_if<T: Scalar>(&mut self, p: Reg<bool>, to: SmemPtr, value: Reg<T>) {
        let operands = vec![to.operand(), value.operand()];
        self.emit_if(p, &format!("st.shared.{}", T::SUFFIX), operands);
    }

    /// Stores 2 or 4 values to neighbouring places in shared memory.
    #[track_caller]
    pub fn st_shared_vector<T: Scalar>(&mut self, to: SmemPtr, values: &[Reg<T>]) {
        let text = format!("st.shared.v{}.{}", values.len(), T::SUFFIX);
        self.emit(&text, vec![to.operand(), vector(values)]);
    }

    /// Stores 2 or 4 values in a CTA of the cluster, counted in bytes on the `barrier` there.
    #[track_caller]
    pub fn st_async_vector<T: Scalar>(
        &mut self,
        to: RemoteSmemPtr,
        values: &[Reg<T>],
        barrier: RemoteMbarrier,
    ) {
        let text = format!(
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v{}.{}",
            values.len(),
            T::SUFFIX
        );
        self.emit(&text, vec![to.operand(), vector(values), barrier.operand()]);
    }

    /// Loads 2 or 4 neighbouring values from shared memory.
    #[track_caller]
    pub fn ld_shared_vector<T: Scalar>(&mut self, from: SmemPtr, n: usize) -> Vec<Reg<T>> {
        let values = self.regs(n);
        let text = format!("ld.shared.v{n}.{}", T::SUFFIX);
        self.emit(&text, vec![vector(&values), from.operand()]);
        values
    }

    /// Loads one value from global memory.
    #[track_caller]
    pub fn ld_global<T: Scalar>(&mut self, from: GlobalPtr) -> Reg<T> {
        let d = self.reg();
        self.emit(&format!("ld.global.{}", T::SUFFIX), vec![d.operand(), from.operand()]);
        d
    }

    /// Loads 2 or 4 neighbouring values from global memory.
    #[track_caller]
    pub fn ld_global_vector<T: Scalar>(&mut self, from: GlobalPtr, n: usize) -> Vec<Reg<T>> {
        let values = self.regs(n);
        let text = format!("ld.global.v{n}.{}", T::SUFFIX);
        self.emit(&text, vec![vector(&values), from.operand()]);
        values
    }

    /// Loads neighbouring values from global memory into `values`, where `p` holds.
    #[track_caller]
    pub fn ld_global_if<T: Scalar>(&mut self, p: Reg<bool>, from: GlobalPtr, values: &[Reg<T>]) {
        let (text, values) = match values {
            [one] => (format!("ld.global.{}", T::SUFFIX), one.operand()),
            many => (format!("ld.global.v{}.{}", many.len(), T::SUFFIX), vector(many)),
        };
        self.emit_if(p, &text, vec![values, from.operand()]);
    }

    /// Loads 1, 2 or 4 bytes from global memory into `value`, zeros above them; only where `p` holds, if there is one.
    #[track_caller]
    pub fn ld_global_bytes(
        &mut self,
        p: Option<Reg<bool>>,
        from: GlobalPtr,
        bytes: u32,
        value: Reg<u32>,
    ) {
        let (text, operands) =
            (format!("ld.global.u{}", bytes * 8), vec![value.operand(), from.operand()]);
        match p {
            Some(p) => self.emit_if(p, &text, operands),
            None => self.emit(&text, operands),
        }
    }

    /// Stores the lowest 1, 2 or 4 bytes of `value` to global memory, where `p` holds.
    #[track_caller]
    pub fn st_global_bytes(&mut self, p: Reg<bool>, to: GlobalPtr, bytes: u32, value: Reg<u32>) {
        let text = format!("st.global.u{}", bytes * 8);
        self.emit_if(p, &text, vec![to.operand(), value.operand()]);
    }

    /// Brings what lies at `from` to L2, if it can be read there.
    #[track_caller]
    pub fn prefetch_to_l2(&mut self, from: GlobalPtr) {
        self.emit("prefetch.global.L2", vec![from.operand()]);
    }

    /// Stores one value to global memory.
    #[track_caller]
    pub fn st_global<T: Scalar>(&mut self, to: GlobalPtr, value: Reg<T>) {
        self.emit(&format!("st.global.{}", T::SUFFIX), vec![to.operand(), value.operand()]);
    }

    /// Stores one value to global memory where `p` holds.
    #[track_caller]
    pub fn st_global_if<T: Scalar>(&mut self, p: Reg<bool>, to: GlobalPtr, value: Reg<T>) {
        let text = format!("st.global.{}", T::SUFFIX);
        self.emit_if(p, &text, vec![to.operand(), value.operand()]);
    }

    /// Stores 2 or 4 values to neighbouring places in global memory.
    #[track_caller]
    pub fn st_global_vector<T: Scalar>(&mut self, to: GlobalPtr, values: &[Reg<T>]) {
        let text = format!("st.global.v{}.{}", values.len(), T::SUFFIX);
        self.emit(&text, vec![to.operand(), vector(values)]);
    }

    /// Stores a word behind everything this thread has written or seen written, for the whole GPU.
    #[track_caller]
    pub fn st_release(&mut self, to: GlobalPtr, value: Reg<u32>) {
        self.emit("st.release.gpu.global.u32", vec![to.operand(), value.operand()]);
    }

    /// Loads a word that another thread [releases](Self::st_release).
    #[track_caller]
    pub fn ld_acquire(&mut self, from: GlobalPtr) -> Reg<u32> {
        let d: Reg<u32> = self.reg();
        self.emit("ld.acquire.gpu.global.u32", vec![d.operand(), from.operand()]);
        d
    }

    /// Adds to a word that other threads of the GPU add to as well, and returns what it was before.
    #[track_caller]
    pub fn atomic_add(&mut self, to: GlobalPtr, value: impl Into<Arg<u32>>) -> Reg<u32> {
        let (d, value): (Reg<u32>, _) = (self.reg(), self.operand(value));
        self.emit("atom.relaxed.gpu.global.add.u32", vec![d.operand(), to.operand(), value]);
        d
    }

    /// Stores the low byte of a word where `p` holds.
    #[track_caller]
    pub fn st_shared_byte_if(&mut self, p: Reg<bool>, to: SmemPtr, value: Reg<u32>) {
        self.emit_if(p, "st.shared.u8", vec![to.operand(), value.operand()]);
    }

    /// Stores the low 16 bits of a word.
    #[track_caller]
    pub fn st_shared_half(&mut self, to: SmemPtr, value: Reg<u32>) {
        self.emit("st.shared.u16", vec![to.operand(), value.operand()]);
    }

    /// Copies 16 bytes (or `valid` of them, the rest zero) from global to shared memory,
    /// asynchronously.
    #[track_caller]
    pub fn cp_async16(&mut self, to: SmemPtr, from: GlobalPtr, valid: Option<Reg<u32>>) {
        let mut operands = vec![to.operand(), from.operand(), Operand::int(16)];
        operands.extend(valid.map(|v| v.operand()));
        self.emit("cp.async.cg.shared.global", operands);
    }

    /// Copies 8 bytes (or `valid` of them, the rest zero) from global to shared memory, asynchronously.
    #[track_caller]
    pub fn cp_async8(&mut self, to: SmemPtr, from: GlobalPtr, valid: Option<Reg<u32>>) {
        let mut operands = vec![to.operand(), from.operand(), Operand::int(8)];
        operands.extend(valid.map(|v| v.operand()));
        self.emit("cp.async.ca.shared.global", operands);
    }

    /// Closes the group of [`Builder::cp_async16`] copies issued since the last one.
    #[track_caller]
    pub fn cp_async_commit(&mut self) {
        self.emit("cp.async.commit_group", vec![]);
    }

    /// Waits until at most `pending` groups of such copies are unfinished.
    #[track_caller]
    pub fn cp_async_wait(&mut self, pending: u32) {
        self.emit("cp.async.wait_group", vec![Operand::int(pending)]);
    }
}
