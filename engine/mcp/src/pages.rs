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

/// Number of the first item of the page that a request asks for, in a list of pages of `page` items.
///
/// # Errors
/// Invalid parameters, when no list gives that cursor.
pub(crate) fn beginning(request: Option<&PaginatedRequestParams>, page: usize) -> Result<usize, ErrorData> {
    let Some(cursor) = cursor(request) else { return Ok(0) };
    let given = cursor.parse().ok().filter(|from: &usize| *from > 0 && from.is_multiple_of(page));
    given.filter(|from| from.to_string() == cursor).ok_or_else(|| {
        let words = "the cursor is not one of an earlier list: leave it out for the first page";
        ErrorData::invalid_params(words, None)
    })
}

/// The page of a list that begins at an item, and the cursor of the next one.
///
/// # Errors
/// Invalid parameters, when the list has no such page.
pub(crate) fn page<T>(all: Vec<T>, from: usize, page: usize) -> Result<(Vec<T>, Option<String>), ErrorData> {
    if from > 0 && from >= all.len() {
        let words = format!(
            "the cursor is behind the end of the list, which has {} items now: leave it out for the first page",
            all.len()
        );
        return Err(ErrorData::invalid_params(words, None));
    }
    let next = from.saturating_add(page);
    let more = all.len() > next;
    Ok((all.into_iter().skip(from).take(page).collect(), more.then(|| next.to_string())))
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
            (Some("0"), false, None),
            (Some("100"), false, Some(100)),
            (Some("1200"), false, Some(1200)),
            (Some("101"), false, None),
            (Some("+100"), false, None),
            (Some("0100"), false, None),
            (Some(" 100"), false, None),
            (Some("-1"), false, None),
            (Some("1e3"), false, None),
            (Some("bm90IG9uZQ=="), false, None),
            (Some("99999999999999999999999"), false, None),
        ] {
            let request =
                given.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())));
            let (single, paged) = (only_page(request.as_ref()), beginning(request.as_ref(), 100));
            assert_eq!((single.is_ok(), paged.as_ref().ok().copied()), (only, begins), "{given:?}");
            for error in single.err().into_iter().chain(paged.err()) {
                assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{given:?}");
                assert!(error.message.contains("leave"), "{}", error.message);
            }
        }
    }

    #[test]
    fn pages_are_those_of_the_list() {
        for (items, from, want) in [
            (0, 0, Ok((0, None))),
            (100, 0, Ok((100, None))),
            (101, 0, Ok((100, Some("100")))),
            (101, 100, Ok((1, None))),
            (250, 100, Ok((100, Some("200")))),
            (100, 100, Err("has 100 items now")),
            (0, 100, Err("has 0 items now")),
            (5, 99_999_999_900, Err("has 5 items now")),
            (5, usize::MAX, Err("has 5 items now")),
        ] {
            match (page(vec![(); items], from, 100), want) {
                (Ok((page, next)), Ok((length, cursor))) => {
                    assert_eq!((page.len(), next.as_deref()), (length, cursor), "{items} from {from}");
                }
                (Err(error), Err(part)) => assert!(error.message.contains(part), "{}", error.message),
                (got, _) => panic!("{items} from {from}: {got:?}"),
            }
        }
    }
}
