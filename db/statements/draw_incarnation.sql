-- draw_incarnation - tells running nodes that somebody changed things beside them (an import from the shell).
--
-- Columns: incarnation. Nodes see that the sequence moved and read anew what they know.
SELECT nextval('node_incarnations') AS incarnation
