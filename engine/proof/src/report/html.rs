//! A report as a single HTML page without external resources, suitable for printing. Pure.

use std::fmt::Write;

use hotcell_sandbox::text::html::escape_into;
use hotcell_sandbox::text::is_shown;

use crate::report::text::{WALLS, explained, sign, sum, version};
use crate::report::{AttackReport, Report, RowReport, Seen, Standing, TestReport};

/// Colours are redundant: each cell also has a word or sign.
const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#111;background:#fff}\
    table{border-collapse:collapse;margin:1em 0}th,td{border:1px solid #bbb;padding:2px 6px;text-align:left;vertical-align:top}\
    th{background:#eee}thead{display:table-header-group}tr{break-inside:avoid}td.w{text-align:center}\
    .two_walls,.holds{background:#dff3df}.one_wall,.thin{background:#fff3cd}.not_run,.failed{background:#f8d7da;font-weight:bold}\
    .absent,.never{background:#eee}code{font-family:ui-monospace,monospace}@page{size:landscape;margin:1cm}\
    @media print{body{margin:0;font-size:9px}th,td{padding:1px 3px}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

/// Formats the page.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    let _ = write!(
        page,
        "<title>hotcell: attacks and walls</title>\n<style>{STYLE}</style></head>\n<body><h1>Attacks and walls on this host</h1>\n"
    );
    facts(&mut page, report);
    let sum = escaped(&sum(report)).replace('\n', "<br>");
    let class = if report.summary.good { "two_walls" } else { "failed" };
    let _ = writeln!(page, "<p class=\"{class}\">{sum}</p>");
    page.push_str(
        "<p>Each attack is a small program that ran in an arena, namespaces and ceilings that nothing here removes: without a \
         sandbox, with every wall, without each of its walls, without all of them. <b>+</b> still stopped without this wall; \
         <b>1</b> only this wall holds; <b>=</b> a wall that is never off; <b>·</b> no wall of this attack; <b>?</b> could not be tried.</p>\n",
    );
    table(&mut page, report);
    for (head, found) in explained(report) {
        if found.is_empty() {
            continue;
        }
        let _ = writeln!(page, "<h2>{}</h2><ul>", escaped(head));
        for (why, names) in found {
            let _ = writeln!(page, "<li><code>{}</code>: {}</li>", escaped(&names.join(", ")), escaped(&why));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn facts(page: &mut String, report: &Report) {
    let host = &report.host;
    let users: Vec<&str> = report.users.iter().map(|u| u.name()).collect();
    page.push_str("<table>\n");
    for (what, value) in [
        ("hotcell", report.hotcell.clone()),
        ("Date", report.date.clone()),
        ("Kernel", format!("Linux {} {}", host.kernel, host.arch)),
        ("Landlock ABI", version(host.landlock_abi)),
        ("Cgroup version", version(host.cgroup_version)),
        ("Container", host.container.clone().unwrap_or_else(|| "none".to_owned())),
        ("User", host.user.clone()),
        ("Rows ran for", users.join(", ")),
    ] {
        let _ = writeln!(page, "<tr><th>{what}</th><td>{}</td></tr>", escaped(&value));
    }
    page.push_str("</table>\n");
}

fn table(page: &mut String, report: &Report) {
    page.push_str("<table><thead><tr><th>no.</th><th>attack</th><th>program or test</th><th>for</th><th>bare</th><th>all on</th>");
    for (wall, short) in WALLS {
        let _ = write!(page, "<th title=\"{wall}\">{short}</th>");
    }
    page.push_str("<th>all out</th><th>came to</th></tr></thead>\n<tbody>\n");
    for attack in &report.attacks {
        for row in &attack.rows {
            row_line(page, attack, row);
        }
        for test in &attack.tests {
            test_line(page, attack, test);
        }
        if attack.rows.is_empty() && attack.tests.is_empty() {
            begin(page, attack, "", "");
            let why = escaped(attack.why.as_deref().unwrap_or_default());
            let _ = write!(page, "<td colspan=\"{}\">{why}</td>", WALLS.len() + 3);
            end(page, attack.standing);
        }
    }
    page.push_str("</tbody></table>\n");
    let names: Vec<String> = WALLS.iter().map(|(wall, short)| format!("{short} {wall}")).collect();
    let _ = writeln!(page, "<p>{}.</p>", escaped(&names.join(", ")));
}

fn begin(page: &mut String, attack: &AttackReport, name: &str, user: &str) {
    let _ = write!(
        page,
        "<tr><td>{}</td><td>{}</td><td><code>{}</code></td><td>{user}</td>",
        attack.number,
        escaped(&attack.title),
        escaped(name)
    );
}

fn end(page: &mut String, standing: Standing) {
    let _ = writeln!(page, "<td class=\"{}\">{}</td></tr>", class(standing), standing.words());
}

fn row_line(page: &mut String, attack: &AttackReport, row: &RowReport) {
    begin(page, attack, &row.name, row.user.name());
    let _ = write!(page, "<td>{}</td><td>{}</td>", word(row.bare), word(row.all_on));
    for (wall, _) in WALLS {
        let cell = if row.walls.is_empty() { "" } else { sign(row.walls.get(&wall.to_string()).copied()) };
        let _ = write!(page, "<td class=\"w\">{cell}</td>");
    }
    let _ = write!(page, "<td>{}</td>", word(row.all_out));
    end(page, row.standing);
}

fn test_line(page: &mut String, attack: &AttackReport, test: &TestReport) {
    begin(page, attack, &test.name, test.user.name());
    let _ = write!(page, "<td colspan=\"{}\">{}</td>", WALLS.len() + 3, escaped(&test.said));
    end(page, test.standing);
}

const fn word(seen: Option<Seen>) -> &'static str {
    match seen {
        None => "–",
        Some(Seen::Through) => "through",
        Some(Seen::Stopped) => "stopped",
        Some(Seen::Absent) => "no such call",
        Some(Seen::Untried) => "untried",
    }
}

const fn class(standing: Standing) -> &'static str {
    match standing {
        Standing::Never => "never",
        Standing::Absent => "absent",
        Standing::Holds => "holds",
        Standing::TwoWalls => "two_walls",
        Standing::OneWall => "one_wall",
        Standing::Thin => "thin",
        Standing::NotRun => "not_run",
        Standing::Failed => "failed",
    }
}

/// Escapes text for HTML, and makes invisible characters visible.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            c if !is_shown(c) => out.extend(c.escape_unicode()),
            c => escape_into(c.encode_utf8(&mut buffer), &mut out),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn html_page_is_self_contained_and_escaped() {
        let mut report = sample();
        report.attacks[0].rows[0].why = Some("<script>alert('x')</script>".to_owned());
        report.attacks[0].rows[0].standing = Standing::Failed;
        let page = html(&report);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
        assert!(page.contains("6.18 &lt;b&gt;&amp;"), "{page}");
        for outside in ["http:", "https:", "src=", "href=", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("<td>141</td><td>host that is gVisor</td>"), "{page}");
        assert_eq!(page.matches("<tr").count(), page.matches("</tr>").count());
        assert_eq!(page.matches("<table").count(), page.matches("</table>").count());
    }

    #[test]
    fn html_special_characters_are_escaped() {
        assert_eq!(escaped("<a href=\"x\">'&\u{1b}\n"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\\u{1b}\n");
    }
}
