//! Repeated fields in the text of a message, counted before it is decoded: one takes two bytes in the text, and many times that in memory. Pure.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Maximum number of repeated fields in a message that is neither a directory nor a tree: ten times the outputs of an action.
pub const MAX_FIELDS: usize = 100_000;

/// A field of a message, by its number in the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    number: u32,
    /// Each of its messages is counted.
    counts: bool,
    /// Fields of its message that are looked into, too.
    within: &'static [Field],
}

const fn each(number: u32, within: &'static [Field]) -> Field {
    Field { number, counts: true, within }
}

const fn one(number: u32, within: &'static [Field]) -> Field {
    Field { number, counts: false, within }
}

/// `properties` of a `NodeProperties`.
const OF_NODE: &[Field] = &[each(1, &[])];
/// `properties` of a `Platform`.
const OF_PLATFORM: &[Field] = &[each(1, &[])];
/// Files, folders and links of a `Directory`.
pub const ENTRIES: &[Field] = &[each(1, &[]), each(2, &[]), each(3, &[])];
/// Properties of a `Directory`, and of its files and links.
pub const PROPERTIES: &[Field] = &[one(1, &[one(6, OF_NODE)]), one(3, &[one(4, OF_NODE)]), one(5, OF_NODE)];
/// Repeated fields of an `Action`.
pub const ACTION: &[Field] = &[one(10, OF_PLATFORM)];
/// Repeated fields of a `Command`: arguments, variables, outputs, and names of properties.
pub const COMMAND: &[Field] = &[
    each(1, &[]),
    each(2, &[]),
    each(3, &[]),
    each(4, &[]),
    one(5, OF_PLATFORM),
    each(7, &[]),
    each(8, &[]),
];
/// Repeated fields of an `ExecuteResponse`: files, folders and links of its result, metadata, details of its status, and logs.
pub const ANSWER: &[Field] = &[
    one(
        1,
        &[
            each(2, &[one(7, OF_NODE)]),
            each(3, &[]),
            each(10, &[one(4, OF_NODE)]),
            each(11, &[one(4, OF_NODE)]),
            each(12, &[one(4, OF_NODE)]),
            one(9, &[each(11, &[])]),
        ],
    ),
    one(3, &[each(3, &[])]),
    each(4, &[]),
];

/// Repeated fields of an `ExecuteOperationMetadata`: notes of its partial metadata.
pub const PROGRESS: &[Field] = &[one(5, &[each(11, &[])])];

/// Number of these fields in the text of a message; `None` where the text ends within a field, or has a group, which no message of the protocol has.
#[must_use]
pub fn count(text: &[u8], fields: &[Field]) -> Option<usize> {
    let mut counted = 0;
    for part in Parts(text) {
        let (number, content) = part?;
        if let Some(field) = fields.iter().find(|field| field.number == number) {
            counted += usize::from(field.counts);
            // The content of other fields may be a text.
            if !field.within.is_empty() {
                counted += count(content.unwrap_or_default(), field.within)?;
            }
        }
    }
    Some(counted)
}

/// Decodes a message with at most [`MAX_FIELDS`] of these fields.
///
/// # Errors
/// The reason, when it has more, or is not such a message.
pub fn decode<M: Message + Default>(text: &[u8], fields: &[Field]) -> Result<M, String> {
    match count(text, fields) {
        None => Err("its fields have no end".to_owned()),
        Some(counted) if counted > MAX_FIELDS => {
            Err(format!("it has more than {MAX_FIELDS} repeated fields"))
        }
        Some(_) => M::decode(text).map_err(|e| e.to_string()),
    }
}

/// Fields of a message's text: their numbers, and their contents where they have a length. Ends with `None` where the text has another form.
pub struct Parts<'t>(pub &'t [u8]);

impl<'t> Iterator for Parts<'t> {
    type Item = Option<(u32, Option<&'t [u8]>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut text = std::mem::take(&mut self.0);
        if text.is_empty() {
            return None;
        }
        let mut part = || {
            let (number, kind) = decode_key(&mut text).ok()?;
            let length = match kind {
                WireType::Varint => decode_varint(&mut text).map(|_| 0).ok()?,
                WireType::ThirtyTwoBit => 4,
                WireType::SixtyFourBit => 8,
                WireType::LengthDelimited => usize::try_from(decode_varint(&mut text).ok()?).ok()?,
                WireType::StartGroup | WireType::EndGroup => return None,
            };
            let (content, rest) = text.split_at_checked(length)?;
            Some((number, (kind == WireType::LengthDelimited).then_some(content), rest))
        };
        let part = part();
        Some(part.map(|(number, content, rest)| {
            self.0 = rest;
            (number, content)
        }))
    }
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
    use bazel_remote_apis::google::protobuf::Any;
    use bazel_remote_apis::google::rpc::Status;
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[allow(deprecated, reason = "a farm may send them")]
    fn repeated_fields_of_each_message_are_counted() {
        let node = |count| {
            let properties = vec![reapi::NodeProperty::default(); count];
            Some(reapi::NodeProperties { properties, ..reapi::NodeProperties::default() })
        };
        let platform =
            |count| Some(reapi::Platform { properties: vec![reapi::platform::Property::default(); count] });
        let files = |count, of| {
            vec![reapi::OutputFile { node_properties: node(of), ..reapi::OutputFile::default() }; count]
        };
        let links = |count, of| {
            vec![reapi::OutputSymlink { node_properties: node(of), ..reapi::OutputSymlink::default() }; count]
        };
        // No message, in which a field would have no end.
        let strings = |count| vec!["sh -c \u{7f}".to_owned(); count];
        let metadata = |count| {
            let auxiliary_metadata = vec![Any::default(); count];
            Some(reapi::ExecutedActionMetadata { auxiliary_metadata, ..Default::default() })
        };
        let result = reapi::ActionResult {
            output_files: files(3, 2),
            output_directories: vec![reapi::OutputDirectory::default(); 4],
            output_file_symlinks: links(1, 1),
            output_directory_symlinks: links(2, 0),
            output_symlinks: links(1, 3),
            execution_metadata: metadata(5),
            stdout_raw: vec![10; 7],
            ..reapi::ActionResult::default()
        };
        let answer = reapi::ExecuteResponse {
            result: Some(result),
            status: Some(Status { code: 1, message: "m".to_owned(), details: vec![Any::default(); 6] }),
            server_logs: std::iter::once(("a log".to_owned(), reapi::LogFile::default())).collect(),
            ..reapi::ExecuteResponse::default()
        };
        let command = reapi::Command {
            arguments: strings(2),
            environment_variables: vec![reapi::command::EnvironmentVariable::default(); 3],
            output_files: strings(1),
            output_directories: strings(2),
            output_paths: strings(4),
            output_node_properties: strings(5),
            platform: platform(6),
            working_directory: "d".to_owned(),
            output_directory_format: 1,
        };
        let action = reapi::Action { platform: platform(3), salt: vec![10; 8], ..reapi::Action::default() };
        let progress = reapi::ExecuteOperationMetadata {
            stage: 2,
            stdout_stream_name: "a log".to_owned(),
            partial_execution_metadata: metadata(5),
            ..reapi::ExecuteOperationMetadata::default()
        };
        for (text, fields, want) in [
            (answer.encode_to_vec(), ANSWER, 3 * 3 + 4 + 2 + 2 + 4 + 5 + 6 + 1),
            (command.encode_to_vec(), COMMAND, 2 + 3 + 1 + 2 + 4 + 5 + 6),
            (action.encode_to_vec(), ACTION, 3),
            (progress.encode_to_vec(), PROGRESS, 5),
            (Vec::new(), ANSWER, 0),
        ] {
            assert_eq!(count(&text, fields), Some(want));
        }
        assert_eq!(decode(&answer.encode_to_vec(), ANSWER), Ok(answer));
        assert_eq!(decode(&command.encode_to_vec(), COMMAND), Ok(command));
        assert_eq!(decode(&action.encode_to_vec(), ACTION), Ok(action));
    }

    #[test]
    fn messages_with_too_much_are_not_decoded() {
        let empty = |key: u8, count: usize| [key, 0].repeat(count);
        // An empty field of each kind: its key, and the length 0.
        let in_result = |key: u8| {
            let content = empty(key, MAX_FIELDS + 1);
            let mut text = vec![0x0a];
            prost::encoding::encode_varint(content.len() as u64, &mut text);
            [text, content].concat()
        };
        let answer = |text: &[u8]| decode::<reapi::ExecuteResponse>(text, ANSWER).map(drop);
        let command = |text: &[u8]| decode::<reapi::Command>(text, COMMAND).map(drop);
        for key in [0x12, 0x1a, 0x52, 0x5a, 0x62] {
            assert!(answer(&in_result(key)).unwrap_err().contains("100000 repeated"), "{key:02x}");
        }
        let mut notes = in_result(0x5a);
        notes[0] = 0x2a;
        let progress = decode::<reapi::ExecuteOperationMetadata>(&notes, PROGRESS);
        assert!(progress.unwrap_err().contains("100000 repeated"));
        assert!(answer(&empty(0x22, MAX_FIELDS + 1)).unwrap_err().contains("100000 repeated"));
        for key in [0x0a, 0x12, 0x1a, 0x22, 0x3a, 0x42] {
            assert!(
                command(&empty(key, MAX_FIELDS + 1)).unwrap_err().contains("100000 repeated"),
                "{key:02x}"
            );
            assert_eq!(command(&empty(key, MAX_FIELDS)), Ok(()));
        }
        for text in [
            &b"\x0a\x05\0"[..],
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0b\x0c",
            b"\xff",
            b"\x0d\0",
        ] {
            assert!(answer(text).unwrap_err().contains("no end"), "{text:02x?}");
        }
    }

    proptest! {
        /// Decoded messages have no more than was counted.
        #[test]
        fn texts_of_bytes_are_counted_as_they_are_decoded(text in prop::collection::vec(0..0x68_u8, 0..60)) {
            if let Ok(answer) = reapi::ExecuteResponse::decode(&*text) && let Some(counted) = count(&text, ANSWER) {
                let result = answer.result.unwrap_or_default();
                let metadata = result.execution_metadata.unwrap_or_default().auxiliary_metadata.len();
                let details = answer.status.unwrap_or_default().details.len();
                let of = |one: &Option<reapi::NodeProperties>| one.as_ref().map_or(0, |one| one.properties.len());
                let files: usize = result.output_files.iter().map(|file| 1 + of(&file.node_properties)).sum();
                let links: usize = result.output_symlinks.iter().map(|link| 1 + of(&link.node_properties)).sum();
                let least = files + links + result.output_directories.len() + metadata + details + answer.server_logs.len();
                prop_assert!(counted >= least, "{} {}", counted, least);
            }
            if let Ok(command) = reapi::Command::decode(&*text) && let Some(counted) = count(&text, COMMAND) {
                let least = command.arguments.len() + command.environment_variables.len() + command.output_paths.len();
                prop_assert!(counted >= least, "{} {}", counted, least);
            }
        }
    }
}
