//! Colours and attributes of a cell, as SGR sets them. ECMA-48, `ctlseqs(ms)`

/// A colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// The terminal's own.
    #[default]
    Usual,
    /// One of the 256 of the palette.
    Palette(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// Colours and attributes of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Colour of the text.
    pub text: Colour,
    /// Colour behind it.
    pub behind: Colour,
    /// Bold.
    pub bold: bool,
    /// Faint.
    pub faint: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underlined: bool,
    /// Colours exchanged.
    pub inverse: bool,
}

impl Style {
    /// Applies the parameters of an SGR sequence; unknown ones are left out.
    pub(crate) fn apply(&mut self, parameters: &str) {
        let mut all = parameters.split(';');
        while let Some(one) = all.next() {
            let mut parts = one.split(':').map(number);
            let first = parts.next().unwrap_or(0);
            let behind = first == 48;
            match first {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.faint = true,
                3 => self.italic = true,
                4 => self.underlined = parts.next() != Some(0),
                7 => self.inverse = true,
                22 => (self.bold, self.faint) = (false, false),
                23 => self.italic = false,
                24 => self.underlined = false,
                27 => self.inverse = false,
                30..=37 => self.text = Colour::Palette(low(first - 30)),
                39 => self.text = Colour::Usual,
                40..=47 => self.behind = Colour::Palette(low(first - 40)),
                49 => self.behind = Colour::Usual,
                90..=97 => self.text = Colour::Palette(low(first - 82)),
                100..=107 => self.behind = Colour::Palette(low(first - 92)),
                38 | 48 => {
                    let parts: Vec<u32> = if one.contains(':') {
                        parts.collect()
                    } else {
                        let kind = all.next().map_or(0, number);
                        let count = if kind == 5 { 1 } else { 3 };
                        std::iter::once(kind).chain(all.by_ref().take(count).map(number)).collect()
                    };
                    let colour = match parts.as_slice() {
                        [5, index] => Colour::Palette(low(*index)),
                        [2, red, green, blue] | [2, _, red, green, blue] => {
                            Colour::Rgb(low(*red), low(*green), low(*blue))
                        }
                        _ => continue,
                    };
                    *(if behind { &mut self.behind } else { &mut self.text }) = colour;
                }
                _ => {}
            }
        }
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn low(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_set_colours_and_attributes() {
        let plain = Style::default();
        for (parameters, want) in [
            ("", plain),
            ("1;31", Style { bold: true, text: Colour::Palette(1), ..plain }),
            ("1;0;7", Style { inverse: true, ..plain }),
            ("97;104", Style { text: Colour::Palette(15), behind: Colour::Palette(12), ..plain }),
            ("38;5;200;4", Style { text: Colour::Palette(200), underlined: true, ..plain }),
            ("48;2;1;2;3", Style { behind: Colour::Rgb(1, 2, 3), ..plain }),
            ("38:2::1:2:3", Style { text: Colour::Rgb(1, 2, 3), ..plain }),
            ("38", plain),
            ("38;2", Style { text: Colour::Usual, ..plain }),
            ("4:0;999;x", plain),
        ] {
            let mut style = plain;
            style.apply(parameters);
            assert_eq!(style, want, "{parameters:?}");
        }
    }
}
