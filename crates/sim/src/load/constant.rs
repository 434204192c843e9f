use super::{Frame, R32, R64};
use ptx::Symbol;
use std::collections::HashMap;

/// A special register, constant for the life of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// `%tid.{x,y,z}`.
    Tid(usize),
    /// `%ntid.{x,y,z}`.
    Ntid(usize),
    /// `%ctaid.{x,y,z}`.
    Ctaid(usize),
    /// `%nctaid.{x,y,z}`.
    Nctaid(usize),
    /// `%cluster_ctaid.{x,y,z}`.
    ClusterCtaid(usize),
    /// `%cluster_nctaid.{x,y,z}`.
    ClusterNctaid(usize),
    /// `%clusterid.{x,y,z}`.
    Clusterid(usize),
    /// `%nclusterid.{x,y,z}`.
    Nclusterid(usize),
    /// `%cluster_ctarank`.
    CtaRank,
    /// `%cluster_nctarank`.
    ClusterSize,
    /// `%is_explicit_cluster`.
    ExplicitCluster,
    /// `%laneid`.
    Lane,
    /// `%warpid`.
    Warp,
    /// `%nwarpid`.
    Warps,
    /// `%smid`.
    Sm,
    /// `%nsmid`.
    Sms,
    /// `%gridid`.
    Grid,
    /// `%lanemask_eq`.
    MaskEq,
    /// `%lanemask_le`.
    MaskLe,
    /// `%lanemask_lt`.
    MaskLt,
    /// `%lanemask_ge`.
    MaskGe,
    /// `%lanemask_gt`.
    MaskGt,
    /// `%dynamic_smem_size`.
    DynamicShared,
    /// `%total_smem_size`, `%aggr_smem_size`.
    TotalShared,
    /// `%reserved_smem_offset_end` and `_cap`.
    ReservedShared,
    /// `%reserved_smem_offset_1`.
    SharedScratch,
    /// `%envreg1` and `%envreg2`: the upper and the lower half of the address of the memory in which the
    /// CTAs of a cooperative launch meet.
    GridWorkspace {
        /// Which half.
        upper: bool,
    },
    /// Other `%envreg<n>`, `%pm<n>`, `%reserved_smem_offset_begin`: 0 here.
    Zero,
}

impl Special {
    /// The special register called `name`.
    pub fn from_name(name: &str) -> Option<Special> {
        let (stem, axis) = match name.rsplit_once('.') {
            Some((stem, "x")) => (stem, 0),
            Some((stem, "y")) => (stem, 1),
            Some((stem, "z")) => (stem, 2),
            _ => (name, 0),
        };
        Some(match stem {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            "%ctaid" => Special::Ctaid(axis),
            "%nctaid" => Special::Nctaid(axis),
            "%cluster_ctaid" => Special::ClusterCtaid(axis),
            "%cluster_nctaid" => Special::ClusterNctaid(axis),
            "%clusterid" => Special::Clusterid(axis),
            "%nclusterid" => Special::Nclusterid(axis),
            "%cluster_ctarank" => Special::CtaRank,
            "%cluster_nctarank" => Special::ClusterSize,
            "%is_explicit_cluster" => Special::ExplicitCluster,
            "%laneid" => Special::Lane,
            "%warpid" => Special::Warp,
            "%nwarpid" => Special::Warps,
            "%smid" => Special::Sm,
            "%nsmid" => Special::Sms,
            "%gridid" => Special::Grid,
            "%lanemask_eq" => Special::MaskEq,
            "%lanemask_le" => Special::MaskLe,
            "%lanemask_lt" => Special::MaskLt,
            "%lanemask_ge" => Special::MaskGe,
            "%lanemask_gt" => Special::MaskGt,
            "%dynamic_smem_size" => Special::DynamicShared,
            "%total_smem_size" | "%aggr_smem_size" => Special::TotalShared,
            "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => Special::ReservedShared,
            "%reserved_smem_offset_begin" => Special::Zero,
            "%reserved_smem_offset_1" => Special::SharedScratch,
            "%envreg1" => Special::GridWorkspace { upper: true },
            "%envreg2" => Special::GridWorkspace { upper: false },
            other if other.starts_with("%envreg") || other.starts_with("%pm") => Special::Zero,
            _ => return None,
        })
    }
}

/// A row to fill when a warp starts.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    /// A 32-bit constant.
    Const32(R32, u32),
    /// A 64-bit constant.
    Const64(R64, u64),
    /// A special register.
    Special32(R32, Special),
    /// A special register read as 64 bits.
    Special64(R64, Special),
    /// The shared-window address of an offset.
    Shared32(R32, u32),
    /// The same as 64 bits.
    Shared64(R64, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Const32(u32),
    Const64(u64),
    Special32(Special),
    Special64(Special),
    Shared32(u32),
    Shared64(u32),
    Global(Symbol),
}

/// The rows of constants, each value once.
#[derive(Default)]
pub(crate) struct Constants {
    rows: HashMap<Key, u32>,
    pub(crate) fills: Vec<Fill>,
    /// Module variables and the rows holding their addresses.
    pub(crate) globals: Vec<(Symbol, R64)>,
}

impl Constants {
    fn row(&mut self, key: Key, make: impl FnOnce() -> (u32, Option<Fill>)) -> u32 {
        *self.rows.entry(key).or_insert_with(|| {
            let (row, fill) = make();
            self.fills.extend(fill);
            row
        })
    }

    pub(crate) fn const32(&mut self, frame: &mut Frame, value: u32) -> R32 {
        R32(self.row(Key::Const32(value), || {
            let r = frame.new32();
            (r.0, Some(Fill::Const32(r, value)))
        }))
    }

    pub(crate) fn const64(&mut self, frame: &mut Frame, value: u64) -> R64 {
        R64(self.row(Key::Const64(value), || {
            let r = frame.new64();
            (r.0, Some(Fill::Const64(r, value)))
        }))
    }

    /// Whether a special register is read anywhere.
    pub(crate) fn reads(&self, special: Special) -> bool {
        self.rows.contains_key(&Key::Special32(special))
            || self.rows.contains_key(&Key::Special64(special))
    }

    pub(crate) fn special32(&mut self, frame: &mut Frame, special: Special) -> R32 {
        R32(self.row(Key::Special32(special), || {
            let r = frame.new32();
            (r.0, Some(Fill::Special32(r, special)))
        }))
    }

    pub(crate) fn special64(&mut self, frame: &mut Frame, special: Special) -> R64 {
        R64(self.row(Key::Special64(special), || {
            let r = frame.new64();
            (r.0, Some(Fill::Special64(r, special)))
        }))
    }

    pub(crate) fn shared32(&mut self, frame: &mut Frame, offset: u32) -> R32 {
        R32(self.row(Key::Shared32(offset), || {
            let r = frame.new32();
            (r.0, Some(Fill::Shared32(r, offset)))
        }))
    }

    pub(crate) fn shared64(&mut self, frame: &mut Frame, offset: u32) -> R64 {
        R64(self.row(Key::Shared64(offset), || {
            let r = frame.new64();
            (r.0, Some(Fill::Shared64(r, offset)))
        }))
    }

    /// The row that takes a module variable's address at launch.
    pub(crate) fn global(&mut self, frame: &mut Frame, name: Symbol) -> R64 {
        let globals = &mut self.globals;
        R64(*self.rows.entry(Key::Global(name)).or_insert_with(|| {
            let r = frame.new64();
            globals.push((name, r));
            r.0
        }))
    }
}
