//! sixwarp: cpu.
