-- insert_batch - the first statement of every write transaction: its id, so that a lost outcome can be learned (law 7).
--
-- $1 uuid  the batch id
--
-- Returns no rows. 23505 only if the id was settled or used before.
-- Index: batches_pkey.
INSERT INTO batches (batch_id) VALUES ($1)
