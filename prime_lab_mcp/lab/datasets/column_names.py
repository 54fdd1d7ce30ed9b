"""Names that columns usually have, by what they hold (facts/validation 1.2), compared as `paths.snake` writes them."""

from __future__ import annotations

PROMPTS = (
    "question_concat", "prompt", "question", "problem", "instruction", "input", "query", "goal", "text", "sentence",
    "ctx", "question_stem", "question_text", "question_content", "problem_statement", "utterance", "task",
    "inputs", "messages", "conversations", "conversation", "dialogue", "dialog", "content", "tweet", "review",
)  # fmt: skip
ANSWERS = (
    "answer", "answer_key", "final_answer", "gold_answer", "expected_answer", "reference_answer", "ground_truth",
    "reward_model.ground_truth", "gold", "correct_answer", "correct", "correct_option", "correct_choice",
    "correct_letter", "answer_letter", "answer_idx", "answer_index", "cop", "answer.aliases", "answer.value",
    "answers.text", "answers_spans.spans", "answers", "possible_answers", "short_answers", "label", "gold_label",
    "coarse_label", "target", "final_decision", "best_answer", "mc1_targets.labels", "test_list", "test", "tests",
    "input_output", "private_test_cases", "private_tests", "public_test_cases", "public_tests", "test_cases",
    "unit_tests", "verification_info", "tool_calls", "function_calls", "correct_answers", "targets", "fine_label",
    "labels", "class", "intent", "sentiment", "emotion", "stance", "solution", "response", "output", "completion",
    "summary", "highlights", "reply", "chosen", "entities", "keywords", "aspects", "triples",
)  # fmt: skip
"""A short `answer` goes before a long `solution` when both are there."""
WEAK_ANSWERS = frozenset({"category", "topic", "genre", "type", "level", "difficulty", "subject", "language", "lang"})
"""Notes about a row that are what is asked for only where there is nothing else."""
TESTS = frozenset({
    "test_list", "test", "tests", "input_output", "private_test_cases", "private_tests", "public_test_cases",
    "public_tests", "test_cases", "unit_tests", "verification_info",
})  # fmt: skip
CONTEXTS = frozenset({
    "passage", "context", "article", "body", "premise", "support", "paragraph", "story", "background", "document",
    "abstract", "excerpt", "scenario", "narrative", "context.contexts", "context.sentences", "evidence_text",
})  # fmt: skip
"""What a question is about; without it the question cannot be answered."""
PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("sentence_a", "sentence_b"),
    ("question1", "question2"), ("question_1", "question_2"), ("text1", "text2"), ("text_1", "text_2"),
    ("text_a", "text_b"), ("question", "sentence"), ("definition", "inputs"), ("definition", "input"),
    ("instruction", "input"), ("claim", "evidence"),
)  # fmt: skip
"""Two columns that only together are what is asked, in this order."""
SYSTEMS = frozenset({"system", "system_prompt", "system_message"})
LEAKY = frozenset({
    "rationale", "equation", "explanation", "exp", "solution", "solutions", "generations", "generation",
    "canonical_solution", "annotated_formula", "linear_formula", "cot", "cot_content", "chain_of_thought", "reasoning",
    "reasoning_content",
    "long_answer", "decomposition", "facts", "thinking", "scratchpad", "hint", "hints", "proof", "code", "rejected",
})  # fmt: skip
"""Columns that give the answer away and never belong in a prompt."""
OTHERS = frozenset({
    "id", "idx", "index", "key", "uid", "uuid", "guid", "qid", "url", "link", "source", "src", "dataset", "data_source",
    "split", "date", "year", "created_date", "timestamp", "language", "lang", "model", "author", "name", "title",
    "hash",
    "unique_id", "problem_type", "question_type", "type", "level", "difficulty", "subject", "subset", "license",
    "task_id", "entry_point", "starter_code", "test_setup_code", "tools", "functions", "ability", "answer_type",
    "meta", "metadata", "extra_info", "role", "score", "rank", "file", "path", "filename",
})  # fmt: skip
"""What rows are about or come from: neither prompt nor answer."""
PROMPT_PARTS = frozenset({"question", "problem", "prompt", "query", "instruction", "puzzle", "riddle", "statement"})
ANSWER_PARTS = {"answer": 0.62, "gold": 0.62, "truth": 0.62, "label": 0.55, "solution": 0.4, "target": 0.5,
                "output": 0.45, "response": 0.4, "expected": 0.5, "tests": 0.6}  # fmt: skip
"""Words in a name that speak for an answer, and how much."""
NOT_ANSWER_PARTS = frozenset({
    "long", "explanation", "num", "type", "id", "source", "count", "length", "start", "end", "reason", "wrong",
    "incorrect", "false", "distractor", "model", "generated", "student", "previous", "format", "text_id", "confidence",
    "score", "is", "has", "prompt", "question", "rationale", "url", "span", "begin", "offset", "difficulty",
    "annotator",
    "no", "bad",
})  # fmt: skip
