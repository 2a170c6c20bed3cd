//! Cursors of lists that come in pages.

use rmcp::model::{ErrorData, PaginatedRequestParams};

/// The cursor of a request. Some clients send an empty one for the first page.
fn cursor(request: Option<&PaginatedRequestParams>) -> Option<&str> {
    request?.cursor.as_deref().filter(|cursor| !cursor.is_empty())
}

/// Refuses any cursor: the list has a single page.
///
/// # Errors
/// Invalid parameters, when there is a cursor.
pub(crate) fn only_page(request: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    let words =
        "the cursor is not one of an earlier list: this list comes in one page, so leave the cursor out";
    cursor(request).map_or(Ok(()), |_| Err(ErrorData::invalid_params(words, None)))
}

/// Number of the first item of the page that a request asks for.
///
/// # Errors
/// Invalid parameters, when the cursor is not a number.
pub(crate) fn beginning(request: Option<&PaginatedRequestParams>) -> Result<usize, ErrorData> {
    let words = "the cursor is not one of an earlier list: leave it out for the first page";
    cursor(request).map_or(Ok(0), |cursor| cursor.parse().map_err(|_| ErrorData::invalid_params(words, None)))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn cursor_of_no_earlier_list_is_refused() {
        for (given, only, begins) in [
            (None, true, Some(0)),
            (Some(""), true, Some(0)),
            (Some("0"), false, Some(0)),
            (Some("100"), false, Some(100)),
            (Some("-1"), false, None),
            (Some("1e3"), false, None),
            (Some("bm90IG9uZQ=="), false, None),
            (Some("99999999999999999999999"), false, None),
        ] {
            let request =
                given.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())));
            let (single, paged) = (only_page(request.as_ref()), beginning(request.as_ref()));
            assert_eq!((single.is_ok(), paged.as_ref().ok().copied()), (only, begins), "{given:?}");
            for error in single.err().into_iter().chain(paged.err()) {
                assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{given:?}");
                assert!(error.message.contains("leave"), "{}", error.message);
            }
        }
    }
}
