//! A program's terminal as text: the screen that its output paints, and the bytes of keys.
//!
//! Output is hostile. It passes the filter of [`hotcell_sandbox::text::terminal`] first, so that only text and the listed sequences reach
//! the screen; every count in them is held to the size of the screen. Nothing is answered to the program. No existing emulator is used:
//! those that were read index beyond a line when a wide character is cut by a resize, and a panic would end a server.
//!
//! | module | idea |
//! | --- | --- |
//! | [`screen`] | the screen: what sequences do to it |
//! | `grid` | lines of cells: writing, erasing, scrolling |
//! | [`style`] | colours and attributes |
//! | [`keys`] | names of keys, and their bytes |
//! | [`lines`] | kinds of lines that programs take, and words that change them |
//! | [`typed`] | what was typed, as the guard reads it |
//! | [`picture`] | a screen as SVG |

#![forbid(unsafe_code)]

mod grid;
pub mod keys;
pub mod lines;
pub mod picture;
pub mod screen;
pub mod style;
pub mod typed;

pub use screen::{Screen, Size};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
