//! File names, arguments and output in JSON: a string where the bytes are UTF-8, otherwise `{"base64": …}`.
//!
//! No byte is lost or replaced, so that a policy or an outcome can be read back exactly.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Raw { base64: String },
}

impl Form {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Raw { base64: STANDARD.encode(bytes) },
        }
    }
    fn bytes<E: serde::de::Error>(self) -> Result<Vec<u8>, E> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Raw { base64 } => STANDARD.decode(base64).map_err(E::custom),
        }
    }
}

fn read<'de, D: Deserializer<'de>>(d: D) -> Result<OsString, D::Error> {
    Form::deserialize(d)?.bytes().map(OsString::from_vec)
}

pub(crate) mod bytes {
    use super::{Deserialize, Deserializer, Form, Serialize, Serializer};
    pub fn serialize<S: Serializer>(v: &[u8], s: S) -> Result<S::Ok, S::Error> {
        Form::of(v).serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        Form::deserialize(d)?.bytes()
    }
}

pub(crate) mod path {
    use super::{Deserializer, Form, OsStrExt, PathBuf, Serialize, Serializer, read};
    use std::path::Path;
    pub fn serialize<S: Serializer>(v: &Path, s: S) -> Result<S::Ok, S::Error> {
        Form::of(v.as_os_str().as_bytes()).serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
        read(d).map(PathBuf::from)
    }
}

pub(crate) mod option_path {
    use super::{
        Deserialize, Deserializer, Form, OsStrExt, OsString, OsStringExt, PathBuf, Serialize, Serializer,
    };
    #[allow(clippy::ref_option)] // the signature that serde asks for
    pub fn serialize<S: Serializer>(v: &Option<PathBuf>, s: S) -> Result<S::Ok, S::Error> {
        v.as_ref().map(|p| Form::of(p.as_os_str().as_bytes())).serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<PathBuf>, D::Error> {
        Option::<Form>::deserialize(d)?
            .map(|f| f.bytes().map(|b| PathBuf::from(OsString::from_vec(b))))
            .transpose()
    }
}

macro_rules! list_module {
    ($name:ident, $item:ty) => {
        pub(crate) mod $name {
            use super::{
                Deserialize, Deserializer, Form, OsStr, OsStrExt, OsString, OsStringExt, Serialize,
                Serializer,
            };
            pub fn serialize<S: Serializer>(v: &[$item], s: S) -> Result<S::Ok, S::Error> {
                let forms: Vec<Form> =
                    v.iter().map(|i| Form::of(AsRef::<OsStr>::as_ref(i).as_bytes())).collect();
                forms.serialize(s)
            }
            pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<$item>, D::Error> {
                Vec::<Form>::deserialize(d)?
                    .into_iter()
                    .map(|f| f.bytes().map(|b| <$item>::from(OsString::from_vec(b))))
                    .collect()
            }
        }
    };
}
list_module!(list, std::ffi::OsString);
list_module!(paths, std::path::PathBuf);

pub(crate) mod pairs {
    use super::{Deserialize, Deserializer, Form, OsStrExt, OsString, OsStringExt, Serialize, Serializer};
    pub fn serialize<S: Serializer>(v: &[(OsString, OsString)], s: S) -> Result<S::Ok, S::Error> {
        let forms: Vec<(Form, Form)> =
            v.iter().map(|(a, b)| (Form::of(a.as_bytes()), Form::of(b.as_bytes()))).collect();
        forms.serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(OsString, OsString)>, D::Error> {
        Vec::<(Form, Form)>::deserialize(d)?
            .into_iter()
            .map(|(a, b)| Ok((OsString::from_vec(a.bytes()?), OsString::from_vec(b.bytes()?))))
            .collect()
    }
}
