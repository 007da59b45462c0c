//! The test: a request after the other, and what must hold after each.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::address;
use super::arrow;
use super::client::{Got, Sent, ask};
use super::dice::Dice;
use super::grammar::{Body, Param, SHAPES, Shape, body, routes_of_the_server};
use super::json::{self, Expect};
use super::sql;
use super::world::{TABLES, World};

/// A text of an error is to be read by people.
const MAX_ERROR_BYTES: usize = 20_000;
/// Rows are read and compared after so many requests; what tells that some changed, after each.
const READ_ROWS: u64 = 20;

/// A request with what must come of it.
struct Case {
    shape: Shape,
    sent: Sent,
    expect: Expect,
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect(name))
}

#[test]
fn every_route_of_the_server_has_a_generator() {
    let mut known: Vec<&str> = SHAPES.iter().map(|shape| shape.route).collect();
    let mut served = routes_of_the_server();
    known.sort_unstable();
    served.sort_unstable();
    assert_eq!(known, served, "write a good request of the new route into the grammar");
}

#[tokio::test]
async fn good_requests_of_every_route_are_answered() {
    let world = World::new().await;
    for shape in SHAPES {
        let dice = &mut Dice::of(1);
        let table =
            if shape.route.contains("_lsm") || shape.route.contains("_rte") { "tier" } else { "plain" };
        let only_plain = ["enable_rte", "set_lsm_write_spec"].iter().any(|end| shape.route.ends_with(end));
        let only_tier = ["/flush"].iter().any(|end| shape.route.ends_with(end));
        let table = if only_plain {
            "plain"
        } else if only_tier {
            "tier"
        } else {
            table
        };
        let mut sent = Sent::post(&shape.path(table, "id_idx"));
        sent.method = shape.method().to_owned();
        sent.query = shape.query.to_owned();
        sent.body = match shape.body {
            Body::Nothing => Vec::new(),
            Body::Rows => arrow::good(dice),
            Body::Json(fields) => {
                let needed: Vec<_> = body(dice, fields);
                let needed: Vec<_> = needed
                    .into_iter()
                    .filter(|(name, _)| fields.iter().any(|field| field.needed && field.name == name))
                    .collect();
                json::text(&needed).into_bytes()
            }
        };
        let got = ask(&world.address, &sent).await;
        let wanted: &[u16] = match shape.route {
            route if route.contains("compact") => &[501],
            // There are rows in it.
            route if route.ends_with("disable_rte") || route.ends_with("unset_lsm_write_spec") => &[400],
            _ => &[200, 202],
        };
        assert!(wanted.contains(&got.status), "{} {}: {} {}", shape.route, table, got.status, got.text());
        world.mend().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_a_fault_of_the_server_and_none_that_is_refused_changes_a_table() {
    let seed = number("HEADWATER_HTTP_SEED", 5);
    let cases = number("HEADWATER_HTTP_CASES", 400);
    let panics = panics_of_ours();
    let world = World::new().await;
    let mut state = world.state().await.unwrap();
    let mut told: BTreeMap<u16, u64> = BTreeMap::new();
    for n in 0..cases {
        let case = Case::of(seed.wrapping_add(n));
        if std::env::var_os("HEADWATER_HTTP_SHOW").is_some() {
            eprintln!("{n}: {}", shown(&case.sent));
        }
        let got = ask(&world.address, &case.sent).await;
        *told.entry(got.status).or_default() += 1;
        let mut fault = case.judge(&got, world.server.dir.path().to_str().unwrap());
        if fault.is_ok() && case.may_have_changed(&got) {
            match world.state().await {
                Ok(_) => {
                    world.mend().await;
                    state = world.state().await.unwrap();
                }
                Err(unreadable) => fault = Err(unreadable),
            }
        } else if fault.is_ok() && n % READ_ROWS == READ_ROWS - 1 {
            let now = world.state().await;
            fault =
                now.and_then(|now| if now == state { Ok(()) } else { Err(format!("{state:?}\n{now:?}")) });
        } else if fault.is_ok() {
            fault = world.is_as(&state).await;
        }
        let panicked = std::mem::take(&mut *panics.lock().unwrap());
        if let Some(panicked) = panicked.first() {
            fault = fault.and(Err(format!("a panic: {panicked}")));
        }
        if let Err(fault) = fault {
            let again = format!("HEADWATER_HTTP_SEED={} HEADWATER_HTTP_CASES=1", seed.wrapping_add(n));
            let reply: String = got.text().chars().take(2_000).collect();
            panic!("case {n}, again with {again}: {fault}\n{}\n{} {reply}", shown(&case.sent), got.status);
        }
    }
    eprintln!("statuses: {told:?}");
    assert!(cases < 100 || told.len() > 3 && told[&400] > cases / 10, "{told:?}");
}

/// Where our own code panicked, caught or not. Decoders and planners below do on some nonsense, and are
/// caught.
fn panics_of_ours() -> &'static Mutex<Vec<String>> {
    static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if std::env::var_os("HEADWATER_HTTP_SHOW").is_some() {
            eprintln!("a panic at {place}");
        }
        if place.starts_with("crates/") && !place.contains("/tests/") {
            PANICS.lock().unwrap().push(info.to_string());
        } else if place.contains("/tests/") {
            before(info);
        }
    }));
    &PANICS
}

fn shown(sent: &Sent) -> String {
    let headers: Vec<String> = sent
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
        .collect();
    let body: String = String::from_utf8_lossy(&sent.body).chars().take(1_500).collect();
    let query: String = sent.query.chars().take(500).collect();
    format!("{} {}?{query} {headers:?} {} bytes: {body:?}", sent.method, sent.path, sent.body.len())
}

impl Case {
    fn of(seed: u64) -> Self {
        let dice = &mut Dice::of(seed);
        let shape = dice.pick(&SHAPES);
        let mut sent = Sent::post(&shape.path(dice.pick(&TABLES), "id_idx"));
        sent.method = shape.method().to_owned();
        sent.query = shape.query.to_owned();
        match shape.body {
            Body::Nothing => {}
            Body::Json(fields) => sent.body = json::text(&body(dice, fields)).into_bytes(),
            Body::Rows => sent.body = arrow::good(dice),
        }
        let mut case = Self { shape, sent, expect: Expect::Any };
        let fault = if dice.one_in(3) { dice.below(6) } else { 6 };
        match fault {
            0 => case.of_another_table(dice),
            1 => case.asked_for_oddly(dice),
            2 => case.with_a_header(dice),
            3 => case.of_another_method(dice),
            4 => case.of_no_route(dice),
            5 if !shape.params.is_empty() => case.with_a_parameter(dice),
            _ => case.with_a_body(dice),
        }
        if dice.one_in(8) {
            // Two faults: it is not certain which one is told.
            case.with_a_body(dice);
            case.expect = Expect::Any;
        }
        case
    }

    fn with_a_body(&mut self, dice: &mut Dice) {
        let (body, expect) = match self.shape.body {
            Body::Json(fields) => json::faulty(dice, fields),
            Body::Rows => arrow::faulty(dice),
            Body::Nothing => (dice.bytes(60), Expect::Any),
        };
        let makes_tables = self.shape.route.ends_with("create");
        let of_bytes = matches!(expect, Expect::Named("message" | "behind the end"));
        (self.sent.body, self.expect) = (body, if makes_tables && !of_bytes { Expect::Any } else { expect });
    }

    fn of_another_table(&mut self, dice: &mut Dice) {
        let (id, never) = address::id(dice);
        let of_a_table = self.shape.route.contains("{id}");
        let index = if dice.one_in(3) { address::encoded(&dice.odd_text()) } else { "id_idx".to_owned() };
        self.sent.path = self.shape.path(&id, &index);
        if of_a_table && never {
            self.expect = Expect::Named("");
        }
    }

    fn asked_for_oddly(&mut self, dice: &mut Dice) {
        self.sent.query = address::odd_query(dice, self.shape.query);
    }

    fn with_a_header(&mut self, dice: &mut Dice) {
        let named = address::header(dice, &mut self.sent);
        self.expect = named.map_or(Expect::Any, Expect::Named);
    }

    fn of_another_method(&mut self, dice: &mut Dice) {
        self.sent.method = dice
            .pick(&["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW", "get", "CONNECT"])
            .to_owned();
    }

    fn of_no_route(&mut self, dice: &mut Dice) {
        let more = dice.pick(&["/x", "//", "/../..", "/%2e%2e", "/x/y/z", "%00", "/query", ";a=b"]);
        self.sent.path = match dice.below(4) {
            0 => format!("/{}", self.sent.path),
            1 => format!("/v1{more}"),
            2 => more.to_owned(),
            _ => format!("{}{more}", self.sent.path),
        };
        if !self.sent.path.starts_with('/') {
            self.sent.path.insert(0, '/');
        }
    }

    fn with_a_parameter(&mut self, dice: &mut Dice) {
        let param = dice.pick(self.shape.params);
        let name = param.name();
        let kept: Vec<&str> =
            self.shape.query.split('&').filter(|pair| !pair.starts_with(&format!("{name}="))).collect();
        let (value, expect) = match param {
            Param::Flag(name) => (address::no_flag(dice), Expect::Named(name)),
            Param::Number(name) => (address::no_number(dice), Expect::Named(name)),
            Param::Choice(name, _) => {
                (address::encoded(dice.pick(&["", "x", "APPEND ", "\u{0}"])), Expect::Named(name))
            }
            Param::Condition(_) => (address::encoded(&sql::condition(dice)), Expect::Any),
            Param::Text(_) => (address::encoded(&dice.odd_text()), Expect::Any),
        };
        let good = dice.pick(self.shape.params).good(dice);
        let mut query = [kept, vec![]].concat().join("&");
        query.push_str(&format!("&{name}={value}"));
        if dice.one_in(6) {
            // Given twice: the last one counts.
            query = format!("{name}={good}&{query}");
        }
        (self.sent.query, self.expect) = (query.trim_start_matches('&').to_owned(), expect);
    }

    /// Whether a table may be another one now.
    fn may_have_changed(&self, got: &Got) -> bool {
        let writes = self.shape.changes() || self.sent.path != self.shape.path("plain", "id_idx");
        // 422: not known.
        writes && (got.status < 300 || got.status == 422)
    }

    /// Whether the answer is one there may be.
    fn judge(&self, got: &Got, directory: &str) -> Result<(), String> {
        let bare = self.sent.method == "HEAD" || !self.sent.is_http();
        match got.status {
            _ if !self.sent.is_http() && (got.status == 0 || (400..500).contains(&got.status)) => {
                return Ok(());
            }
            _ if !got.whole && self.sent.method != "HEAD" => return Err("the answer broke off".to_owned()),
            200..400 if self.expect == Expect::Any => return Ok(()),
            200..400 => return Err(format!("it was answered, where {:?} was expected", self.expect)),
            400..=499 | 501 => {}
            status => return Err(format!("status {status}")),
        }
        if bare {
            return Ok(());
        }
        let text = got.error()?;
        if text.len() > MAX_ERROR_BYTES {
            return Err(format!("an error of {} bytes", text.len()));
        }
        for inner in [directory, ".rs:", "/root", ".cargo", "panicked"] {
            if text.contains(inner) {
                return Err(format!("it tells {inner}"));
            }
        }
        if got.status == 501 && !self.is_not_done(&text) {
            return Err("501 for something else than what is not done".to_owned());
        }
        match self.expect {
            Expect::Named(name) if !text.to_lowercase().contains(&name.to_lowercase()) => {
                Err(format!("the text does not name {name:?}"))
            }
            _ => Ok(()),
        }
    }

    fn is_not_done(&self, text: &str) -> bool {
        let known = ["does not do", "branch", "uploads in parts", "folding SSTables"];
        known.iter().any(|known| text.contains(known))
    }
}
