//! Cells that their callers withdraw.

use super::{Answer, Cell, INTERRUPT_LOOK, INTERRUPT_TIMEOUT, Session, Status, Stream};

impl Session {
    /// Runs a cell unless its caller withdraws it: one that waits for others does not run then, and one that runs is interrupted. Cells of other callers are left
    /// alone.
    pub async fn execute_unless(&self, cell: Cell, withdrawn: impl Future<Output = ()>) -> Answer {
        let mut withdrawn = std::pin::pin!(withdrawn);
        let mut channel = tokio::select! {
            biased;
            () = &mut withdrawn => {
                let why = "it was withdrawn before it began".to_owned();
                return Answer::new(Status::Refused, self.cells(), Some(why));
            }
            channel = self.channel.lock() => channel,
        };
        let mut unseen = |_: Stream, _: &[u8]| {};
        let mut executing = std::pin::pin!(self.execute_in(&mut channel, cell, &mut unseen));
        tokio::select! {
            answer = &mut executing => return answer,
            () = withdrawn => {}
        }
        // The guard may be reading it, or the interpreter may not have it yet: the interrupt is repeated until the end of the cell.
        loop {
            let pause = if self.interrupt().await { INTERRUPT_TIMEOUT } else { INTERRUPT_LOOK };
            tokio::select! {
                answer = &mut executing => return answer,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
