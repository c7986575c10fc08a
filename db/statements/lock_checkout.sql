-- lock_checkout - one transaction at a time decides about a checkout and its payment.
--
-- $1 text org, $2 uuid checkout
-- Columns: none that matter. Behind the locks of its holds and areas. Waits, up to lock_timeout
-- (55P03). Index: primary key.
SELECT checkout_id FROM checkouts WHERE checkout_id = $2::uuid AND org_id = $1::text FOR NO KEY UPDATE
