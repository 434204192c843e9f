//! Colours that stay readable under dark text.

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour {
    /// Red, green and blue.
    pub rgb: [u8; 3],
}

impl Colour {
    /// Text and frames.
    pub const INK: Colour = Colour { rgb: [0x1f, 0x29, 0x37] };
    /// Secondary text.
    pub const GREY: Colour = Colour { rgb: [0x6b, 0x72, 0x80] };
    /// Lines between cells.
    pub const RULE: Colour = Colour { rgb: [0xff, 0xff, 0xff] };
    /// The ground of a picture.
    pub const PAPER: Colour = Colour { rgb: [0xff, 0xff, 0xff] };
    /// A cell that nothing occupies.
    pub const EMPTY: Colour = Colour { rgb: [0xf3, 0xf4, 0xf6] };

    /// Threads of one quad share a hue and differ in lightness; eight hues make a warp. The four
    /// warps of a warpgroup are shifted a little, so that their rows can be told apart.
    pub fn of_thread(thread: u64) -> Colour {
        let (quad, place, warp) = (thread / 4 % 8, thread % 4, thread / 32 % 4);
        let hue = 45.0 * quad as f64 + 11.0 * warp as f64;
        Colour::pastel(hue, 0.91 - 0.045 * place as f64)
    }

    /// A ring of hues for `position` out of `count`.
    pub fn of_ring(position: u64, count: u64) -> Colour {
        Colour::pastel(360.0 * (position % count) as f64 / count as f64, 0.87)
    }

    /// Green for one lane per bank, then amber to red as more lanes wait for each other.
    pub fn of_conflict(ways: u64) -> Colour {
        match ways {
            0 => Colour::EMPTY,
            1 => Colour::pastel(150.0, 0.87),
            2 => Colour::pastel(75.0, 0.87),
            3..=4 => Colour::pastel(45.0, 0.80),
            _ => Colour::pastel(22.0, 0.72),
        }
    }

    /// A colour of even perceived lightness, through the Oklch space (Ottosson, 2020).
    fn pastel(hue_degrees: f64, lightness: f64) -> Colour {
        let chroma = 0.085;
        let hue = hue_degrees.to_radians();
        let (a, b) = (chroma * hue.cos(), chroma * hue.sin());
        let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
        let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
        let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
        let linear = [
            4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
            -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
            -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s,
        ];
        Colour { rgb: linear.map(gamma) }
    }

    /// `#rrggbb`.
    pub fn hex(self) -> String {
        let [r, g, b] = self.rgb;
        format!("#{r:02x}{g:02x}{b:02x}")
    }
}

/// The sRGB transfer curve, to eight bits.
fn gamma(linear: f64) -> u8 {
    let linear = linear.clamp(0.0, 1.0);
    let encoded =
        if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 };
    (encoded * 255.0).round() as u8
}
