-- batch_is_there - has a transaction with this id committed?
--
-- $1 text: a batch id. Asked once for a lost outcome (cold/settle.c), by the primary key.
SELECT EXISTS (SELECT FROM batches WHERE batch_id = $1::uuid)
