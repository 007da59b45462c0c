//! When the next entry may be made: what waits for company, and how long.
//!
//! Owns: [`Gather`] and its two timers. A linger (`wal.linger_ms`, off by default) waits after the first put
//! of an entry. Company is waited for after a PUT: clients it just answered come back together, and without
//! a moment's patience half of them would miss the next PUT and wait a whole one. The moment is a small part
//! of what the PUT took, a few turns of the scheduler where that is less than timers can tell, and it ends
//! when all of them are there. Does not own: how much goes into an entry (`wal::queue`).

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use headwater_store::env::EnvRef;
use tokio::sync::mpsc;

use crate::settings::WalSettings;
use crate::shard::event::Event;
use crate::shard::task_slot::TaskSlot;

/// The longest wait for company.
const MOST: Duration = Duration::from_millis(5);
/// Timers are no finer.
const LEAST: Duration = Duration::from_millis(1);
/// Turns of the scheduler that let every client that was woken put again.
const TURNS: u32 = 4;

/// What the next entry waits for.
#[derive(Debug, Default)]
pub(super) struct Gather {
    lingering: bool,
    /// The puts that are waited for.
    company: Option<usize>,
    linger_timer: TaskSlot,
    company_timer: TaskSlot,
}

impl Gather {
    /// The first put of an entry has come.
    pub fn linger(&mut self, env: &EnvRef, settings: &WalSettings, outbox: &mpsc::UnboundedSender<Event>) {
        if settings.linger_ms == 0 {
            return;
        }
        self.lingering = true;
        let slept = env.sleep(Duration::from_millis(settings.linger_ms));
        self.linger_timer.run(env, "linger timer", outbox, async move {
            slept.await;
            Event::Lingered
        });
    }

    /// A PUT that took `took` was answered; with what waits already, `puts` make a full company.
    pub fn expect(
        &mut self,
        env: &EnvRef,
        settings: &WalSettings,
        outbox: &mpsc::UnboundedSender<Event>,
        took: Duration,
        puts: usize,
    ) {
        // A lone client whose put nobody waited with: whoever comes next goes at once.
        if settings.company_percent == 0 || puts < 2 {
            return;
        }
        self.company = Some(puts);
        let slept = patience(took, settings.company_percent).map(|wait| env.sleep(wait));
        self.company_timer.run(env, "company timer", outbox, async move {
            match slept {
                Some(slept) => slept.await,
                None => turns(TURNS).await,
            }
            Event::Gathered
        });
    }

    /// The linger is over.
    pub fn lingered(&mut self) {
        self.lingering = false;
    }

    /// Nobody else is waited for.
    pub fn gathered(&mut self) {
        self.company = None;
        self.company_timer.clear();
    }

    /// Whether `puts` that wait are to wait on. A full company ends the wait for it.
    pub fn waits(&mut self, puts: usize) -> bool {
        if self.company.is_some_and(|company| puts >= company) {
            self.gathered();
        }
        self.lingering || self.company.is_some()
    }

    /// Nothing is waited for any more.
    pub fn stop(&mut self) {
        self.lingering = false;
        self.linger_timer.clear();
        self.gathered();
    }
}

/// How long clients that were answered after `took` may take to come back; none when no timer tells so
/// little.
fn patience(took: Duration, percent: u32) -> Option<Duration> {
    let wait = (took.saturating_mul(percent) / 100).min(MOST);
    (wait >= LEAST).then_some(wait)
}

/// Lets whoever is ready run first, so often.
async fn turns(mut left: u32) {
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_a_part_of_the_put_and_no_timer_on_a_fast_disk() {
        let ms = Duration::from_millis;
        assert_eq!(patience(ms(20), 10), Some(ms(2)));
        assert_eq!(patience(ms(300), 10), Some(ms(5)));
        assert_eq!(patience(ms(9), 10), None);
    }
}
