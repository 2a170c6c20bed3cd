//! Parses a 7z header. Every number is checked against the available bytes before anything is allocated.

use super::fields::{Fields, MAX_ITEMS, Told};
use super::{Piece, clipped, decoder};
use std::io::Read;

/// Size of the signature, the version, and the header's place.
const START_HEADER_LEN: usize = 32;
/// Maximum size of a header in bytes, packed or unpacked; with ten thousand long file names it takes one
/// mebibyte.
const MAX_HEADER_BYTES: u64 = 4 << 20;
/// Maximum nesting of packed headers.
const MAX_HEADER_NESTING: usize = 4;
// Ids of the sections of a header.
const END: u64 = 0;
const PLAIN: u64 = 1;
const PROPERTIES: u64 = 2;
const MAIN_STREAMS: u64 = 4;
const FILES: u64 = 5;
const PACK_INFO: u64 = 6;
const UNPACK_INFO: u64 = 7;
const PIECES: u64 = 8;
const SIZES: u64 = 9;
const SUMS: u64 = 10;
const FOLDERS: u64 = 11;
const UNPACKED_SIZES: u64 = 12;
const PIECE_COUNTS: u64 = 13;
const EMPTY_STREAMS: u64 = 14;
const EMPTY_FILES: u64 = 15;
const ANTI_ITEMS: u64 = 16;
const NAMES: u64 = 17;
const ATTRIBUTES: u64 = 21;
const ENCODED: u64 = 23;

/// Parsed part of a header, and its errors.
#[derive(Default)]
pub(super) struct Header {
    pub(super) folders: Vec<Folder>,
    pub(super) files: Vec<File>,
    pub(super) wrong: Vec<String>,
    /// Byte ranges used by the archive itself, without its folders' streams.
    pub(super) taken: Vec<(usize, usize)>,
}

/// A stream that is unpacked by several coders and cut into files.
#[derive(Default)]
pub(super) struct Folder {
    coders: Vec<Coder>,
    /// Pairs of input and output that are connected.
    binds: Vec<(usize, usize)>,
    /// Number of packed streams.
    inputs: usize,
    /// Their byte ranges; the end may be beyond the end of the file.
    pub(super) packed: Vec<(usize, usize)>,
    /// Unpacked size of each output.
    sizes: Vec<u64>,
    sum: Option<u32>,
    /// Size and checksum of each file.
    pub(super) pieces: Vec<(u64, Option<u32>)>,
    /// True when the contents have no file names.
    pub(super) unnamed: bool,
}

pub(super) struct Coder {
    pub(super) method: u64,
    inputs: usize,
    outputs: usize,
    pub(super) settings: Vec<u8>,
}

#[derive(Clone, Default)]
pub(super) struct File {
    pub(super) name: String,
    /// True when a stream contains a piece for it.
    pub(super) data: bool,
    pub(super) folder: bool,
    /// Marks a file to be deleted.
    pub(super) anti: bool,
    /// Windows attributes, and, with a flag, the POSIX mode.
    attributes: u32,
}

impl File {
    fn kind(&self) -> u32 {
        if self.attributes & 0x8000 == 0 { 0 } else { self.attributes >> 28 }
    }
    pub(super) fn is_link(&self) -> bool {
        self.kind() == 0o12
    }
    /// A device, a pipe or a socket, or a Windows reparse point.
    pub(super) fn is_device(&self) -> bool {
        matches!(self.kind(), 1 | 2 | 6 | 0o14) || self.attributes & 0x400 != 0
    }
}

impl Header {
    pub(super) fn of(bytes: &[u8]) -> Header {
        let mut header = Header { taken: vec![(0, START_HEADER_LEN)], ..Header::default() };
        if let Err(why) = header.read(bytes) {
            header.wrong.push(why);
        }
        header
    }

    fn read(&mut self, bytes: &[u8]) -> Told<()> {
        let mut start = Fields(bytes.get(6..START_HEADER_LEN).ok_or("it ends in its first header")?);
        let version = start.fixed(2)? & 0xff;
        if version != 0 {
            self.wrong.push(format!("its version is {version}"));
        }
        let sum = start.fixed(4)?;
        self.check("first header", start.0, sum);
        let (offset, size, sum) = (start.fixed(8)?, start.fixed(8)?, start.fixed(4)?);
        if size == 0 {
            return if bytes.len() == START_HEADER_LEN { Ok(()) } else { Err("it has no header".to_owned()) };
        }
        if size > MAX_HEADER_BYTES {
            return Err(format!("its header has {size} bytes, at most {MAX_HEADER_BYTES} are read"));
        }
        let place = range(START_HEADER_LEN as u64, offset).and_then(|(_, begin)| range(begin as u64, size));
        let (begin, end) =
            place.filter(|(_, end)| *end <= bytes.len()).ok_or("its header lies beyond its end")?;
        self.taken.push((begin, end));
        let mut own = bytes[begin..end].to_vec();
        self.check("header", &own, sum);
        for _ in 0..MAX_HEADER_NESTING {
            let mut from = Fields(&own);
            match from.number()? {
                PLAIN => return self.plain(&mut from),
                ENCODED => own = self.unpacked(bytes, &streams(&mut from)?)?,
                other => return Err(format!("its header begins with {other}")),
            }
        }
        Err("its header is packed too often".to_owned())
    }

    fn check(&mut self, what: &str, bytes: &[u8], wanted: u64) {
        if u64::from(sum(bytes)) != wanted {
            self.wrong.push(format!("the checksum of its {what} is wrong"));
        }
    }

    /// Unpacks a packed header.
    fn unpacked(&mut self, bytes: &[u8], folders: &[Folder]) -> Told<Vec<u8>> {
        let [folder] = folders else { return Err("its header is in several folders".to_owned()) };
        let ([(begin, end)], [(size, sum)]) = (folder.packed.as_slice(), folder.pieces.as_slice()) else {
            return Err("its header has several streams".to_owned());
        };
        if *size > MAX_HEADER_BYTES {
            return Err(format!("its header unpacks to {size} bytes, at most {MAX_HEADER_BYTES} are read"));
        }
        self.taken.push((*begin, *end));
        let mut stream = decoder(folder, clipped(bytes, *begin, *end), MAX_HEADER_BYTES)
            .map_err(|why| format!("its header: {why}"))?;
        let mut out = Vec::new();
        if let Err(error) = Piece::of(&mut stream, *size, *sum).read_to_end(&mut out) {
            self.wrong.push(format!("its header cannot be unpacked: {error}"));
        }
        Ok(out)
    }

    fn plain(&mut self, from: &mut Fields<'_>) -> Told<()> {
        let mut section = from.number()?;
        if section == PROPERTIES {
            while from.number()? != END {
                let size = from.size()?;
                from.bytes(size)?;
            }
            section = from.number()?;
        }
        if section == MAIN_STREAMS {
            self.folders = streams(from)?;
            section = from.number()?;
        }
        if section == FILES {
            self.files = files(from)?;
            section = from.number()?;
        }
        if section != END || !from.0.is_empty() {
            return Err(format!("its header has a section {section} that is not read here"));
        }
        Ok(())
    }
}

impl Folder {
    /// Coders in unpacking order, with the output size of each.
    pub(super) fn chain(&self) -> Told<Vec<(&Coder, u64)>> {
        if let Some(coder) = self.coders.iter().find(|coder| coder.inputs != 1 || coder.outputs != 1) {
            return Err(unread(coder.method));
        }
        let mut next = (0..self.coders.len()).find(|at| self.binds.iter().all(|(input, _)| input != at));
        let mut chain = Vec::new();
        while let Some(at) = next.filter(|_| chain.len() < self.coders.len()) {
            chain.push((&self.coders[at], self.sizes[at]));
            next = self.binds.iter().find(|(_, output)| *output == at).map(|(input, _)| *input);
        }
        if chain.len() != self.coders.len() || next.is_some() {
            return Err("its coders are not linked one after another".to_owned());
        }
        Ok(chain)
    }

    /// Final output size: that of the output that feeds no coder.
    fn size(&self) -> u64 {
        let last = (0..self.sizes.len()).find(|at| self.binds.iter().all(|(_, output)| output != at));
        last.map_or(0, |at| self.sizes[at])
    }
}

/// Why a method's streams are not unpacked.
pub(super) fn unread(method: u64) -> String {
    let name = match method {
        0x06_f1_07_01 => return "encrypted".to_owned(),
        0x03_04_01 => "PPMd",
        0x03_03_01_1b => "BCJ2",
        0x04_01_09 => "Deflate64",
        _ => return format!("method {method:x} is not unpacked here"),
    };
    format!("{name} is not unpacked here")
}

pub(super) fn sum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// Byte range in the file.
fn range(begin: u64, size: u64) -> Option<(usize, usize)> {
    Some((usize::try_from(begin).ok()?, usize::try_from(begin.checked_add(size)?).ok()?))
}

fn streams(from: &mut Fields<'_>) -> Told<Vec<Folder>> {
    let mut section = from.number()?;
    let mut packed = Vec::new();
    if section == PACK_INFO {
        packed = packed_streams(from)?;
        section = from.number()?;
    }
    let mut folders = Vec::new();
    if section == UNPACK_INFO {
        folders = unpack_info(from)?;
        section = from.number()?;
    }
    let mut packed = packed.into_iter();
    for folder in &mut folders {
        folder.packed = packed.by_ref().take(folder.inputs).collect();
        if folder.packed.len() < folder.inputs {
            return Err("its folders have more streams than it".to_owned());
        }
        folder.pieces = vec![(folder.size(), folder.sum)];
    }
    if section == PIECES {
        pieces(from, &mut folders)?;
        section = from.number()?;
    }
    if section == END { Ok(folders) } else { Err(format!("its streams have section {section}")) }
}

fn packed_streams(from: &mut Fields<'_>) -> Told<Vec<(usize, usize)>> {
    let mut begin =
        (START_HEADER_LEN as u64).checked_add(from.number()?).ok_or("its streams lie beyond its end")?;
    let count = from.count()?;
    from.expect(SIZES)?;
    let mut places = Vec::new();
    for _ in 0..count {
        let place = range(begin, from.number()?).ok_or("its streams lie beyond its end")?;
        places.push(place);
        begin = place.1 as u64;
    }
    let mut section = from.number()?;
    if section == SUMS {
        from.sums(count)?;
        section = from.number()?;
    }
    if section == END { Ok(places) } else { Err(format!("its packed streams have section {section}")) }
}

fn unpack_info(from: &mut Fields<'_>) -> Told<Vec<Folder>> {
    from.expect(FOLDERS)?;
    let count = from.count()?;
    from.inside()?;
    let mut folders = (0..count).map(|_| folder(from)).collect::<Told<Vec<_>>>()?;
    from.expect(UNPACKED_SIZES)?;
    for folder in &mut folders {
        let outputs: usize = folder.coders.iter().map(|coder| coder.outputs).sum();
        folder.sizes = (0..outputs).map(|_| from.number()).collect::<Told<_>>()?;
    }
    let mut section = from.number()?;
    if section == SUMS {
        for (folder, sum) in folders.iter_mut().zip(from.sums(count)?) {
            folder.sum = sum;
        }
        section = from.number()?;
    }
    if section == END { Ok(folders) } else { Err(format!("its folders have section {section}")) }
}

fn folder(from: &mut Fields<'_>) -> Told<Folder> {
    let mut folder = Folder::default();
    for _ in 0..from.small()? {
        let flags = from.byte()?;
        if flags & 0xc0 != 0 || flags & 15 > 8 {
            return Err(format!("its header has a coder with flags {flags:x}"));
        }
        let method =
            from.bytes(usize::from(flags & 15))?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (inputs, outputs) = if flags & 16 == 0 { (1, 1) } else { (from.small()?, from.small()?) };
        let settings = if flags & 32 == 0 { 0 } else { from.size()? };
        let settings = from.bytes(settings)?.to_vec();
        folder.coders.push(Coder { method, inputs, outputs, settings });
    }
    let inputs: usize = folder.coders.iter().map(|coder| coder.inputs).sum();
    let outputs: usize = folder.coders.iter().map(|coder| coder.outputs).sum();
    for _ in 1..outputs {
        let bind = (from.small()?, from.small()?);
        let twice = folder.binds.iter().any(|(input, output)| *input == bind.0 || *output == bind.1);
        if bind.0 >= inputs || bind.1 >= outputs || twice {
            return Err("its coders are linked wrongly".to_owned());
        }
        folder.binds.push(bind);
    }
    folder.inputs = inputs
        .checked_sub(folder.binds.len())
        .filter(|inputs| *inputs > 0 && outputs > 0)
        .ok_or("a folder of it reads nothing")?;
    if folder.inputs > 1 {
        for _ in 0..folder.inputs {
            from.small()?;
        }
    }
    Ok(folder)
}

/// Cuts the folders' streams into files.
fn pieces(from: &mut Fields<'_>, folders: &mut [Folder]) -> Told<()> {
    let mut section = from.number()?;
    let mut counts = vec![1; folders.len()];
    if section == PIECE_COUNTS {
        for count in &mut counts {
            *count = from.number()?;
        }
        section = from.number()?;
    }
    let all = counts.iter().fold(0u64, |all, count| all.saturating_add(*count));
    if all > MAX_ITEMS {
        return Err(format!("its folders have {all} files, at most {MAX_ITEMS} are read"));
    }
    let sized = section == SIZES;
    for (folder, count) in folders.iter_mut().zip(counts) {
        let mut left = folder.size();
        // Without files, other programs would not unpack it.
        folder.unnamed = count == 0;
        if count > 1 && !sized {
            return Err("its files have no sizes".to_owned());
        }
        folder.pieces.clear();
        for _ in 1..count {
            let size = from.number()?;
            left = left.checked_sub(size).ok_or("its files are larger than what they are in")?;
            folder.pieces.push((size, None));
        }
        folder.pieces.push((left, folder.sum.filter(|_| count < 2)));
    }
    if sized {
        section = from.number()?;
    }
    if section == SUMS {
        let unknown = || folders.iter().filter(|f| !f.unnamed).flat_map(|f| &f.pieces);
        let count = unknown().filter(|(_, sum)| sum.is_none()).count();
        let mut sums = from.sums(count)?.into_iter();
        let pieces = folders.iter_mut().filter(|f| !f.unnamed).flat_map(|f| &mut f.pieces);
        for (_, sum) in pieces.filter(|(_, sum)| sum.is_none()) {
            *sum = sums.next().flatten();
        }
        section = from.number()?;
    }
    if section == END { Ok(()) } else { Err(format!("its files' streams have section {section}")) }
}

fn files(from: &mut Fields<'_>) -> Told<Vec<File>> {
    let count = from.count()?;
    let mut files: Vec<File> =
        (0..count).map(|at| File { name: at.to_string(), data: true, ..File::default() }).collect();
    let mut seen = Vec::new();
    loop {
        let property = from.number()?;
        if property == END {
            return Ok(files);
        }
        let size = from.size()?;
        let mut own = Fields(from.bytes(size)?);
        if (EMPTY_STREAMS..=NAMES).contains(&property) || property == ATTRIBUTES {
            // With two of them, programs could use different ones.
            if seen.contains(&property) {
                return Err(format!("its files have property {property} twice"));
            }
            seen.push(property);
        }
        match property {
            EMPTY_STREAMS => {
                for (file, empty) in files.iter_mut().zip(own.bits(count)?) {
                    file.data = !empty;
                    file.folder = empty;
                }
            }
            EMPTY_FILES | ANTI_ITEMS => {
                let bits = own.bits(files.iter().filter(|file| !file.data).count())?;
                for (file, set) in files.iter_mut().filter(|file| !file.data).zip(bits) {
                    if property == ANTI_ITEMS {
                        file.anti = set;
                    } else {
                        file.folder = !set;
                    }
                }
            }
            NAMES => {
                own.inside()?;
                for file in &mut files {
                    file.name = name(&mut own)?;
                }
            }
            ATTRIBUTES => {
                let defined = own.defined(count)?;
                own.inside()?;
                for (file, _) in files.iter_mut().zip(defined).filter(|(_, there)| *there) {
                    file.attributes = u32::try_from(own.fixed(4)?).unwrap_or(0);
                }
            }
            // Times, comments and padding.
            _ => {}
        }
    }
}

/// UTF-16 characters up to a zero.
fn name(from: &mut Fields<'_>) -> Told<String> {
    let mut units = Vec::new();
    loop {
        match u16::try_from(from.fixed(2)?).unwrap_or(0) {
            0 => return Ok(String::from_utf16_lossy(&units)),
            unit => units.push(unit),
        }
    }
}
