//! Options of JavaScript's test runners: which take a value, and which are set by hotcell itself. An unknown
//! option takes the next word as its value, unless that begins with a dash.

mod jest;
mod mocha;
mod node;
mod tap;
mod vitest;

use jest::JEST;
use mocha::{JASMINE, MOCHA};
use node::NODE;
use tap::{AVA, COVERAGE, TAP, TAPE};
use vitest::VITEST;

use super::shell::Word;

/// Options of one program.
#[derive(Debug)]
pub struct Options {
    /// Options without a value.
    alone: &'static [&'static str],
    /// Options whose value is the next word, even if other options are unknown.
    valued: &'static [&'static str],
    /// Options in neither list take a value only after `=`.
    strict: bool,
    /// Options that take every word up to the next option.
    greedy: &'static [&'static str],
    /// Options that select tests by name.
    names: &'static [&'static str],
    /// Options that select files.
    files: &'static [&'static str],
    /// Options that hotcell sets itself, and those that only affect the display of results.
    ours: &'static [&'static str],
}

/// Options of a program.
#[must_use]
pub fn of(program: &str) -> Option<&'static Options> {
    Some(match program {
        "mocha" => &MOCHA,
        "jest" => &JEST,
        "vitest" => &VITEST,
        "jasmine" => &JASMINE,
        "node" => &NODE,
        "tape" => &TAPE,
        "tap" => &TAP,
        "ava" => &AVA,
        "c8" | "nyc" => &COVERAGE,
        _ => return None,
    })
}

/// Kind of a piece of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An option, with its value.
    Option,
    /// `--`: the following words are not options.
    End,
    /// Names of files or tests.
    Positional,
}

impl Options {
    /// Splits words into pieces: each option with its value, and each other word.
    fn split<'a>(&self, words: &'a [Word]) -> Vec<(Kind, &'a [Word])> {
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut ended = false;
        while let Some(word) = words.get(at) {
            let name = word.text.as_str();
            let kind = match () {
                () if ended || !name.starts_with('-') || name == "-" => Kind::Positional,
                () if name == "--" => Kind::End,
                () => Kind::Option,
            };
            ended |= kind == Kind::End;
            let mut length = 1;
            if kind == Kind::Option {
                let bare = name.split('=').next().unwrap_or_default();
                let values = words[at + 1..].iter().take_while(|next| !next.text.starts_with('-')).count();
                let valued = self.valued.contains(&name)
                    || !self.strict && !self.alone.contains(&name) && !name.contains('=');
                if self.greedy.contains(&bare) {
                    length += values;
                } else if valued {
                    length += values.min(1);
                }
            }
            pieces.push((kind, &words[at..at + length]));
            at += length;
        }
        pieces
    }

    /// Words from the first one that is not an option.
    #[must_use]
    pub fn positional<'a>(&self, words: &'a [Word]) -> Option<&'a [Word]> {
        let mut at = 0;
        for (kind, piece) in self.split(words) {
            match kind {
                Kind::Option => at += piece.len(),
                Kind::End => return words.get(at + 1..),
                Kind::Positional => return words.get(at..),
            }
        }
        None
    }

    /// Number of words that select tests or files.
    #[must_use]
    pub fn choices(&self, words: &[Word]) -> usize {
        let chooses = |(kind, piece): &(Kind, &[Word])| {
            let name = piece[0].text.split('=').next().unwrap_or_default();
            match kind {
                Kind::Positional => true,
                Kind::End => false,
                // Coverage options are in both lists, since they are removed in both cases.
                Kind::Option => self.names.contains(&name) != self.files.contains(&name),
            }
        };
        self.split(words).iter().filter(|piece| chooses(piece)).count()
    }

    /// Words without those that hotcell sets itself, and without those that select tests by name, or by file.
    #[must_use]
    pub fn keep(&self, words: &[Word], names: bool, files: bool) -> Vec<Word> {
        let stays = |kind: Kind, piece: &[Word]| {
            let name = piece[0].text.split('=').next().unwrap_or_default();
            match kind {
                Kind::Positional | Kind::End => !files,
                Kind::Option => {
                    let ours = self.ours.contains(&name);
                    let chosen = names && self.names.contains(&name) || files && self.files.contains(&name);
                    !ours && !chosen
                }
            }
        };
        self.split(words)
            .into_iter()
            .filter(|(kind, piece)| stays(*kind, piece))
            .flat_map(|(_, piece)| piece.to_vec())
            .collect()
    }
}
