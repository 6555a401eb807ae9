"""The fault suite: a pipeline of real servers, something that breaks, and a look from outside at what came through."""
