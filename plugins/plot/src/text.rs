//! Text on bitmaps: plotters draws none without a system font, as in a component.

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};
use plotters::prelude::BitMapBackend;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

type Error = <BitMapBackend<'static> as DrawingBackend>::ErrorType;
type Done = Result<(), DrawingErrorKind<Error>>;

/// A bitmap that can draw text.
pub(crate) struct Bitmap<'a> {
    inner: BitMapBackend<'a>,
    font: FontRef<'static>,
}

impl<'a> Bitmap<'a> {
    /// Wraps a buffer of 3 bytes per pixel.
    pub(crate) fn new(buffer: &'a mut [u8], size: (u32, u32)) -> Result<Self, String> {
        // Hack: MIT and Bitstream Vera licence.
        let font = FontRef::try_from_slice(epaint_default_fonts::HACK_REGULAR).map_err(|e| e.to_string())?;
        Ok(Self { inner: BitMapBackend::with_buffer(buffer, size), font })
    }

    /// Glyphs of a line, and its width and height in pixels.
    fn layout(&self, text: &str, size: f64) -> (Vec<Glyph>, u32, u32) {
        let scale = PxScale::from(size as f32);
        let font = self.font.as_scaled(scale);
        let (mut x, mut last, mut glyphs) = (0.0, None, Vec::new());
        for c in text.chars().filter(|c| !c.is_control()) {
            let id = font.glyph_id(c);
            x += last.map_or(0.0, |last| font.kern(last, id));
            glyphs.push(id.with_scale_and_position(scale, point(x, font.ascent())));
            x += font.h_advance(id);
            last = Some(id);
        }
        (glyphs, x.ceil() as u32, font.height().ceil() as u32)
    }
}

impl DrawingBackend for Bitmap<'_> {
    type ErrorType = Error;

    fn get_size(&self) -> (u32, u32) {
        self.inner.get_size()
    }
    fn ensure_prepared(&mut self) -> Done {
        self.inner.ensure_prepared()
    }
    fn present(&mut self) -> Done {
        self.inner.present()
    }
    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Done {
        self.inner.draw_pixel(at, color)
    }
    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.inner.draw_line(from, to, style)
    }
    fn draw_rect<S: BackendStyle>(
        &mut self,
        a: BackendCoord,
        b: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        self.inner.draw_rect(a, b, style, fill)
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Error>> {
        let (_, width, height) = self.layout(text, style.size());
        Ok((width, height))
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let (glyphs, width, height) = self.layout(text, style.size());
        let (width, height) = (width as i32, height as i32);
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let top = match anchor.v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        let (turn, color) = (style.transform(), style.color());
        let (w, h) = self.get_size();
        for outline in glyphs.into_iter().filter_map(|glyph| self.font.outline_glyph(glyph)) {
            let corner = outline.px_bounds().min;
            let mut pixels = Vec::new();
            outline.draw(|x, y, covered| {
                pixels.push((corner.x as i32 + x as i32, corner.y as i32 + y as i32, covered))
            });
            for (x, y, covered) in pixels {
                let (x, y) = turn.transform(x + left, y + top);
                let (x, y) = (at.0 + x, at.1 + y);
                if covered > 0.0 && x >= 0 && y >= 0 && x < w as i32 && y < h as i32 {
                    let alpha = color.alpha * f64::from(covered.min(1.0));
                    self.inner.draw_pixel((x, y), BackendColor { alpha, rgb: color.rgb })?;
                }
            }
        }
        Ok(())
    }
}
