//! Function of `wit/http-client.wit`.

use requests::{answer, read, reason};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, Method as WasiMethod, OutgoingBody, OutgoingRequest, Scheme};

use crate::{text, url};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::http_client::http_client::{Guest, Header, Method, Response};

/// Maximum number of headers in an answer.
const MOST: usize = 100;
/// Maximum number of bytes of a body, unless the caller says otherwise.
const USUAL: u32 = 256 << 10;
/// Maximum number of bytes of a body.
const LONGEST: u32 = 1 << 20;
/// Bytes that one write to a body may have.
const PIECE: usize = 4096;

struct Plugin;
export!(Plugin);

fn method(method: Method) -> WasiMethod {
    match method {
        Method::Get => WasiMethod::Get,
        Method::Head => WasiMethod::Head,
        Method::Post => WasiMethod::Post,
        Method::Put => WasiMethod::Put,
        Method::Patch => WasiMethod::Patch,
        Method::Delete => WasiMethod::Delete,
    }
}

impl Guest for Plugin {
    fn request(
        url: String,
        asked: Option<Method>,
        headers: Option<Vec<Header>>,
        body: Option<String>,
        limit: Option<u32>,
    ) -> Result<Response, String> {
        let address = url::parse(&url)?;
        let what = format!("{}{}", address.authority, address.path);
        let fields = Fields::new();
        for Header { name, value } in headers.into_iter().flatten() {
            fields.append(&name, value.as_bytes()).map_err(|e| format!("header {name}: {e}"))?;
        }
        let request = OutgoingRequest::new(fields);
        let scheme = if address.https { Scheme::Https } else { Scheme::Http };
        let set = request.set_method(&method(asked.unwrap_or(Method::Get))).is_ok()
            && request.set_scheme(Some(&scheme)).is_ok()
            && request.set_authority(Some(address.authority)).is_ok()
            && request.set_path_with_query(Some(&address.path)).is_ok();
        if !set {
            return Err(format!("{what} is no address"));
        }
        let sent = request.body().map_err(|()| format!("{what}: the request has no body"))?;
        let pending =
            outgoing_handler::handle(request, None).map_err(|code| format!("{what}: {}", reason(code)))?;
        write(sent, body.as_deref().unwrap_or_default()).map_err(|e| format!("{what}: {e}"))?;
        let response = answer(pending).map_err(|e| format!("{what}: {e}"))?;
        let (status, entries) = (response.status(), response.headers().entries());
        let limit = limit.unwrap_or(USUAL).min(LONGEST) as usize;
        let bytes = read(response, limit).map_err(|e| format!("{what}: {e}"))?;
        let (body, cut) = text::body(&bytes, limit);
        let header =
            |(name, value): (String, Vec<u8>)| Some(Header { name, value: String::from_utf8(value).ok()? });
        Ok(Response {
            status,
            headers: entries.into_iter().filter_map(header).take(MOST).collect(),
            body,
            bytes: bytes.len() as u64,
            cut,
        })
    }
}

fn write(body: OutgoingBody, text: &str) -> Result<(), String> {
    let stream = body.write().map_err(|()| "the body cannot be written".to_owned())?;
    for piece in text.as_bytes().chunks(PIECE) {
        stream.blocking_write_and_flush(piece).map_err(|e| e.to_string())?;
    }
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|e| e.to_string())
}
