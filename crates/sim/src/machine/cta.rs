use std::fmt;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// The rank of a CTA in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CtaRank(pub usize);

impl CtaRank {
    /// The other CTA of its pair.
    pub fn peer(self) -> CtaRank {
        CtaRank(self.0 ^ 1)
    }

    /// The even and the odd CTA of its pair.
    pub fn pair(self) -> [CtaRank; 2] {
        [CtaRank(self.0 & !1), CtaRank(self.0 | 1)]
    }
}

impl fmt::Display for CtaRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something of each CTA of a cluster.
#[derive(Clone, Debug)]
pub struct PerCta<T>(Vec<T>);

impl<T> Default for PerCta<T> {
    fn default() -> Self {
        PerCta(Vec::new())
    }
}

impl<T> PerCta<T> {
    /// The CTAs.
    pub fn ranks(&self) -> impl Iterator<Item = CtaRank> + use<T> {
        (0..self.0.len()).map(CtaRank)
    }

    /// The CTAs, and what each has.
    pub fn pairs(&self) -> impl Iterator<Item = (CtaRank, &T)> {
        self.ranks().zip(&self.0)
    }

    /// The same, to be changed.
    pub fn pairs_mut(&mut self) -> impl Iterator<Item = (CtaRank, &mut T)> {
        self.ranks().zip(&mut self.0)
    }

    /// What a CTA has, if there is one of that rank.
    pub fn at(&self, cta: CtaRank) -> Option<&T> {
        self.0.get(cta.0)
    }

    /// Whether there is a CTA of that rank.
    pub fn holds(&self, cta: CtaRank) -> bool {
        cta.0 < self.0.len()
    }

    /// Adds the next CTA's.
    pub fn push(&mut self, of_cta: T) {
        self.0.push(of_cta);
    }
}

impl<T> FromIterator<T> for PerCta<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        PerCta(all.into_iter().collect())
    }
}

impl<T> Index<CtaRank> for PerCta<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, cta: CtaRank) -> &T {
        &self.0[cta.0]
    }
}

impl<T> IndexMut<CtaRank> for PerCta<T> {
    #[inline(always)]
    fn index_mut(&mut self, cta: CtaRank) -> &mut T {
        &mut self.0[cta.0]
    }
}

impl<T> Deref for PerCta<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for PerCta<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
