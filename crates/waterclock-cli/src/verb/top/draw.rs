//! The whole screen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, TableState};
use waterclock_rehearse::terminal::grouped;

use super::plain::{config, connections, store, title};
use super::policy::{key_text, refusals, short_key_text};
use super::screen::View;
use super::snapshot::{LimitSize, Now, PolicyTotals, Rates, rate, span, whole};

/// Below this width, tables stand above each other.
const WIDE: u16 = 110;
const HELP: [&str; 7] = [
    "q, Esc, Ctrl-C   quit",
    "↑ ↓, k j         select a policy",
    "Enter, Esc       open it, back",
    "s                sort: refused, allowed, keys, name",
    "p, space         pause, resume",
    "?                this help",
    "any key          back",
];

pub(super) fn draw(frame: &mut Frame<'_>, view: &View, palette: &Palette) {
    let [top, rest, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    draw_title(frame, top, view, palette);
    match view.watched.now() {
        Some(now) => draw_now(frame, rest, view, now, palette),
        None => frame.render_widget(Paragraph::new("waiting for the first answer"), rest),
    }
    draw_foot(frame, bottom, view, palette);
    if view.shows_help {
        draw_help(frame, rest);
    }
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, view: &View, palette: &Palette) {
    let mut parts = vec![Span::styled(view.address.clone(), palette.strong())];
    if let Some(now) = view.watched.now() {
        parts.push(Span::raw(format!("  {}", title(&now.snapshot))));
    }
    if view.is_paused {
        parts.push(Span::styled("  PAUSED", palette.warn()));
    }
    frame.render_widget(Line::from(parts), area);
}

fn draw_now(frame: &mut Frame<'_>, area: Rect, view: &View, now: &Now, palette: &Palette) {
    let [picture, tables, about] =
        Layout::vertical([Constraint::Length(6), Constraint::Fill(1), Constraint::Length(4)])
            .areas(area);
    draw_rates(frame, picture, view, now.rates, palette);
    if let Some(name) = &view.open {
        draw_policy(frame, tables, name, view, palette);
        return draw_about(frame, about, view, now, palette);
    }
    let halves = if area.width >= WIDE {
        Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)])
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)])
    };
    let [policies, refused] = halves.areas(tables);
    draw_policies(frame, policies, view, palette);
    draw_refused(frame, refused, now, palette);
    draw_about(frame, about, view, now, palette);
}

/// Numbers, and below them the last minutes: allowed, then refused.
fn draw_rates(frame: &mut Frame<'_>, area: Rect, view: &View, rates: Rates, palette: &Palette) {
    let block = Block::bordered().title(" decisions per second ");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [numbers, allowed, refused] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(inside);
    let part = |name: &str, value: f64, style: Style| {
        Span::styled(format!("{name} {}   ", rate(value)), style)
    };
    let parts = [
        part("allowed", rates.allowed, palette.good()),
        part("refused", rates.refused, palette.warn()),
        part("shadow-refused", rates.shadow_refused, palette.shadow()),
        part("errors", rates.error, if rates.error > 0.0 { palette.bad() } else { Style::new() }),
    ];
    frame.render_widget(Line::from(parts.to_vec()), numbers);
    let all = usize::from(inside.width);
    let of_allowed = view.watched.history(all, |rates| rates.allowed);
    let of_refused = view.watched.history(all, |rates| rates.refused);
    draw_history(frame, allowed, "allowed", &of_allowed, palette.good());
    draw_history(frame, refused, "refused", &of_refused, palette.warn());
}

/// The latest values, oldest first, behind their name.
fn draw_history(frame: &mut Frame<'_>, area: Rect, name: &str, values: &[u64], style: Style) {
    let [label, picture] =
        Layout::horizontal([Constraint::Length(8), Constraint::Fill(1)]).areas(area);
    let first = values.len().saturating_sub(usize::from(picture.width));
    let latest = values.get(first..).unwrap_or_default();
    let most = values.iter().max().copied().unwrap_or(0).max(1);
    frame.render_widget(Line::styled(name, style), label);
    frame.render_widget(Sparkline::default().data(latest).max(most).style(style), picture);
}

/// The selected policy, the store, the connections and the configuration.
fn draw_about(frame: &mut Frame<'_>, area: Rect, view: &View, now: &Now, palette: &Palette) {
    let state = |(text, is_healthy): (String, bool)| {
        Line::styled(text, if is_healthy { Style::new() } else { palette.bad() })
    };
    let lines = vec![
        Line::raw(selected(view)),
        state(store(&now.snapshot.store, now.snapshot.at_us)),
        Line::raw(connections(&now.snapshot)),
        state(config(&now.snapshot.config, now.snapshot.at_us)),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn selected(view: &View) -> String {
    let rows = view.rows();
    let Some((policy, _)) = view.place().and_then(|place| rows.get(place)) else {
        return "there are no policies".to_owned();
    };
    let limit = |limit: &LimitSize| match limit.limit {
        Some(most) => format!("{}: capacity {most}", limit.name),
        None => limit.name.clone(),
    };
    // Policies that a caller's numbers make (CL.THROTTLE) are not told in words.
    let sizes = || policy.limits.iter().map(limit).collect::<Vec<String>>().join("; ");
    let limits = view.limits.get(&policy.name).cloned().unwrap_or_else(sizes);
    let limits = if limits.is_empty() { "no limits" } else { &*limits };
    let totals = policy.totals;
    let reserved = match policy.reservations {
        0 => String::new(),
        some => format!(", {} reserved", grouped(some)),
    };
    format!(
        "{} ({limits}): {} allowed, {} refused, {} shadow-refused, {} errors{reserved}",
        policy.name,
        grouped(totals.allowed),
        grouped(totals.refused),
        grouped(totals.shadow_refused),
        grouped(totals.error),
    )
}

/// The view of one policy.
fn draw_policy(frame: &mut Frame<'_>, area: Rect, name: &str, view: &View, palette: &Palette) {
    let block = Block::bordered().title(format!(" policy {name} "));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let Some(page) = view.page.as_ref().filter(|page| page.name == name) else {
        return frame.render_widget(Paragraph::new("waiting for the server"), inside);
    };
    let [words, allowed, refused, keys] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(inside);
    let rates = page.history.rates();
    let now = rates.last().copied().unwrap_or_default();
    let share = page.refused_share();
    let share = share.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let lines = vec![
        Line::styled(page.limits.join("; "), palette.strong()),
        Line::raw(format!(
            "per second: {} allowed, {} refused, {} shadow-refused; refused share {share} in {}",
            rate(now.allowed),
            rate(now.refused),
            rate(now.shadow_refused),
            span(rates.len() as u64 * 1_000_000)
        )),
        Line::raw(format!("latency of all policies: {}", page.latency())),
    ];
    frame.render_widget(Paragraph::new(lines), words);
    let of = |of: fn(&Rates) -> f64| rates.iter().map(|rates| whole(of(rates))).collect::<Vec<_>>();
    draw_history(frame, allowed, "allowed", &of(|rates| rates.allowed), palette.good());
    draw_history(frame, refused, "refused", &of(|rates| rates.refused), palette.warn());
    if page.refused.keys.is_empty() {
        let none = Line::from("no refused keys in the last minutes").style(palette.faint());
        return frame.render_widget(none, keys);
    }
    let rows = page.refused.keys.iter().map(|key| {
        let times = Text::from(refusals(key)).alignment(Alignment::Right);
        Row::new([times, Text::from(key_text(key))])
    });
    let header = Row::new(["  refusals", "key"]).style(palette.faint());
    let widths = [Constraint::Length(10), Constraint::Fill(1)];
    frame.render_widget(Table::new(rows, widths).header(header), keys);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, view: &View, palette: &Palette) {
    let line = match &view.away {
        Some(sentence) => Line::styled(format!("UNREACHABLE, retrying: {sentence}"), palette.bad()),
        None if view.open.is_some() => {
            Line::styled("q quit   Esc back   p pause   ? help", palette.faint())
        }
        None => Line::styled(
            "q quit   ↑↓ select   Enter open   s sort   p pause   ? help",
            palette.faint(),
        ),
    };
    frame.render_widget(line, area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let width = HELP.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 4;
    let size =
        (u16::try_from(width).unwrap_or(u16::MAX), u16::try_from(HELP.len() + 2).unwrap_or(8));
    let place = area.centered(Constraint::Length(size.0), Constraint::Length(size.1));
    frame.render_widget(Clear, place);
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), place);
}

fn draw_policies(frame: &mut Frame<'_>, area: Rect, view: &View, palette: &Palette) {
    let header = ["policy", "allowed/s", "refused/s", "shadow-refused/s", "share", "keys"];
    let header = header.iter().enumerate().map(|(place, name)| aligned(place, (*name).to_owned()));
    let rows = view.rows();
    let keys =
        |policy| view.watched.now().map_or_else(String::new, |now| now.snapshot.keys_of(policy));
    let lines = rows.iter().map(|(policy, rates)| row(policy, keys(policy), *rates, palette));
    let title = format!(" policies by {} ", view.order.name());
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(16),
        Constraint::Length(6),
        Constraint::Length(8),
    ];
    let table = Table::new(lines, widths)
        .header(Row::new(header).style(palette.faint()))
        .row_highlight_style(palette.selected())
        .block(Block::bordered().title(title));
    let mut state = TableState::default().with_selected(view.place());
    frame.render_stateful_widget(table, area, &mut state);
}

fn row<'r>(policy: &'r PolicyTotals, keys: String, rates: Rates, palette: &Palette) -> Row<'r> {
    let asked = rates.allowed + rates.refused + rates.shadow_refused;
    let share =
        if asked > 0.0 { format!("{:.0}%", 100.0 * rates.refused / asked) } else { "–".into() };
    let cells = [
        policy.name.clone(),
        rate(rates.allowed),
        rate(rates.refused),
        rate(rates.shadow_refused),
        share,
        keys,
    ];
    let cells = cells.into_iter().enumerate().map(|(place, text)| aligned(place, text));
    let row = Row::new(cells);
    if rates.refused > 0.0 { row.style(palette.warn()) } else { row }
}

/// Names to the left, numbers to the right.
fn aligned<'t>(place: usize, text: String) -> Text<'t> {
    Text::from(text).alignment(if place == 0 { Alignment::Left } else { Alignment::Right })
}

fn draw_refused(frame: &mut Frame<'_>, area: Rect, now: &Now, palette: &Palette) {
    let refused = &now.snapshot.refused;
    let title = match refused.shown.as_str() {
        "hashed" => " most refused keys (hashed) ",
        _ => " most refused keys ",
    };
    let block = Block::bordered().title(title);
    if refused.keys.is_empty() {
        let none = Line::from("none in the last minutes").style(palette.faint());
        return frame.render_widget(ratatui::widgets::Paragraph::new(none).block(block), area);
    }
    let rows = refused.keys.iter().map(|key| {
        let times = Text::from(refusals(key)).alignment(Alignment::Right);
        Row::new([times, Text::from(key.policy.as_str()), Text::from(short_key_text(key))])
    });
    let widths = [Constraint::Length(8), Constraint::Percentage(30), Constraint::Fill(1)];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

/// Colours of the live view; none where `NO_COLOR` asks for none.
pub(super) struct Palette {
    is_coloured: bool,
}

impl Palette {
    pub(super) fn of_environment() -> Palette {
        let asked = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Palette { is_coloured: !asked }
    }

    #[cfg(test)]
    fn plain() -> Palette {
        Palette { is_coloured: false }
    }

    fn good(&self) -> Style {
        self.coloured(Color::Green)
    }

    fn warn(&self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// Stands out without a colour, too.
    fn bad(&self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn shadow(&self) -> Style {
        self.coloured(Color::Magenta)
    }

    fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn selected(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn coloured(&self, color: Color) -> Style {
        if self.is_coloured { Style::new().fg(color) } else { Style::new() }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::feed::{More, News};
    use super::super::policy::tests::page;
    use super::super::snapshot::StoreNodes;
    use super::super::snapshot::tests::snapshot;
    use super::*;

    fn view() -> View {
        let mut view = View::new("http://127.0.0.1:8080");
        for (seconds, allow, deny) in [(60, 0, 0), (61, 10, 0), (62, 30, 0), (63, 70, 5)] {
            let snapshot = Box::new(snapshot(seconds, allow, deny));
            let _ =
                view.take(News::Snapshot { snapshot, json: String::new(), more: More::default() });
        }
        view
    }

    fn shown(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, &Palette::plain())).unwrap();
        let screen = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| screen[(x, y)].symbol()).collect::<String>();
        let rows = (0..height).map(|y| row(y).trim_end().to_owned());
        rows.collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn the_whole_screen() {
        assert_eq!(shown(&view(), 80, 24), include_str!("whole.txt").trim_end());
    }

    #[test]
    fn a_server_that_is_away_and_a_pause() {
        let mut view = view();
        let _ = view.take(News::Away("http://127.0.0.1:8080: cannot be reached".to_owned()));
        let _ = view.press(KeyEvent::new(KeyCode::Char('p'), KeyModifiers::NONE));
        let shown = shown(&view, 100, 24);
        let foot = "\nUNREACHABLE, retrying: http://127.0.0.1:8080: cannot be reached";
        assert!(shown.ends_with(foot), "{shown}");
        assert!(shown.lines().next().unwrap().ends_with("PAUSED"), "{shown}");
        assert!(shown.contains("allowed 40.0"), "what was seen last stays: {shown}");
    }

    #[test]
    fn trouble_is_named() {
        let mut troubled = snapshot(70, 1, 1);
        troubled.store.degraded = true;
        troubled.store.degraded_since_us = Some(troubled.at_us - 30_000_000);
        troubled.store.nodes = Some(StoreNodes { configured: 2, alive: Some(3) });
        troubled.store.name = "redis".to_owned();
        troubled.store.errors.insert("timeout".to_owned(), 7);
        troubled.config.last_reload.success = false;
        troubled.config.last_reload.problems = vec!["waterclock.toml:3:1: unknown key".to_owned()];
        let mut view = view();
        let _ = view.take(News::Snapshot {
            snapshot: Box::new(troubled),
            json: String::new(),
            more: More::default(),
        });
        let shown = shown(&view, 120, 24);
        let health =
            "store redis: DEGRADED for 30 s; on_store_error applies, local with 1/3 of each limit";
        assert!(shown.contains(health), "{shown}");
        let login = shown.lines().find(|line| line.contains("│login ")).unwrap();
        let cells: Vec<&str> = login.split('│').nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells.last(), Some(&"–"), "only memory knows how many keys there are: {login}");
        assert!(shown.contains("7 failures so far (timeout)"), "{shown}");
        assert!(shown.contains("rejected: waterclock.toml:3:1: unknown key"), "{shown}");
    }

    #[test]
    fn shadow_is_no_refusal_and_still_a_decision() {
        let mut shadowy = snapshot(64, 71, 6);
        shadowy.policies[0].totals.shadow_refused = 98;
        shadowy.totals.shadow_refused = 98;
        shadowy.store.errors = [("a", u64::MAX), ("b", 1)].map(|(n, c)| (n.to_owned(), c)).into();
        let mut view = view();
        let _ = view.take(News::Snapshot {
            snapshot: Box::new(shadowy),
            json: String::new(),
            more: More::default(),
        });
        assert_eq!(view.watched.history(1, |rates| rates.shadow_refused), [98]);
        let shown = shown(&view, 120, 24);
        let row = |begin: &str| shown.lines().find(|line| line.contains(begin)).unwrap();
        // One refusal of a hundred decisions, after five in the second before.
        assert!(row("│demo ").contains(" 1% "), "{shown}");
        assert!(row("│refused ").contains("█▁"), "{shown}");
        assert!(shown.contains(&format!("{} failures so far (a, b)", u64::MAX)), "{shown}");
    }

    #[test]
    fn limits_in_the_words_of_the_dashboard() {
        let mut view = view();
        let limits = [("demo".to_owned(), "burst: 30/min, capacity 5".to_owned())].into();
        let more = More { limits: Some(limits), ..More::default() };
        let snapshot = |seconds| Box::new(snapshot(seconds, 12_345, 5));
        let _ = view.take(News::Snapshot { snapshot: snapshot(64), json: String::new(), more });
        let line = "\ndemo (burst: 30/min, capacity 5): 12,345 allowed, 5 refused, ";
        assert!(shown(&view, 100, 24).contains(line));
        // They stay until the server sends others.
        let more = More::default();
        let _ = view.take(News::Snapshot { snapshot: snapshot(65), json: String::new(), more });
        assert!(shown(&view, 100, 24).contains(line));
    }

    #[test]
    fn a_policy_has_a_view_of_its_own() {
        let mut view = view();
        let _ = view.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        assert!(shown(&view, 100, 30).contains("waiting for the server"));
        let more = More { page: Some(Box::new(page())), ..More::default() };
        let snapshot = Box::new(snapshot(64, 80, 5));
        let _ = view.take(News::Snapshot { snapshot, json: String::new(), more });
        let shown = shown(&view, 100, 30);
        for part in [
            "┌ policy demo ",
            "burst: 30/min, capacity 5; 1,000 tokens/1 h 30 min",
            "per second: 3.0 allowed, 2.0 refused, 0.0 shadow-refused; refused share 25.0 % in 3 s",
            "latency of all policies: http 50 % within 2.5 µs, 99 % within 1.5 ms",
            "   ≥ 1,970 client_ip: 127.0.0.1  user: al\\u{1b}ice",
            "        12 k",
            "Esc back",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }

    #[test]
    fn any_size_will_do() {
        let mut view = view();
        view.open = Some("demo".to_owned());
        view.page = Some(Box::new(page()));
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            let _ = shown(&view, width, height);
        }
        view.open = None;
        view.shows_help = true;
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            let _ = shown(&view, width, height);
        }
        assert!(shown(&view, 80, 24).contains("sort: refused, allowed, keys, name"));
    }
}
