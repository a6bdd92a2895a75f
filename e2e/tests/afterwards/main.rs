//! After all other tests, on the cluster on which all of them ran: what the operators of the whole run asked for.

mod least_privilege;
