package simulation

// This file draws scenarios that are larger than most.

// drawLarge draws up to 32 partitions, and up to 16 hosts that run at the same time.
func (s *scenario) drawLarge(d *draw) {
	s.partitions = d.between(16, 32)
	s.add(d, d.between(9, 13), eventJoin, 0, 0.3)
}

// transactions is the number of transactions in a seed with many of them.
const transactions = 5000

// drawManyTransactions draws 5,000 transactions. There are few partitions, so each has
// thousands of transactions. A handler that gets one or five changes at a time would not
// handle all of them before the end of the run.
func (s *scenario) drawManyTransactions(d *draw) {
	s.partitions = d.between(1, 3)
	if s.maxItems == 1 || s.maxItems == 5 {
		s.maxItems = 20
	}
	s.add(d, transactions, eventWrite, 0, 1)
}
